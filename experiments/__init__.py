"""Work that is made of many runs: the paper's experiments, surveys."""
