"""The paper's experiments at its own speed, and curves of what it could not try: `make paper-scale`."""
