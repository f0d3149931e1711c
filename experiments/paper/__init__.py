"""The paper's experiments in miniature: which figure each mirrors, what the paper measured, what was measured here."""
