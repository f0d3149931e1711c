"""Entropy values: their sets, states, profiles and paths, and the probes that bring them back."""
