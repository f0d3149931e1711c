"""The paper's experiments at its own speed, and curves beyond its experiments: `make paper-scale`."""
