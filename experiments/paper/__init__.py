"""The paper's experiments in miniature: the figure each mirrors, the paper's measurement, and ours."""
