"""Jobs as graphs of computations and messages: trained models by their degrees of parallelism, and recorded traces."""
