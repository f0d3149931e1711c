"""Benchmark of provisioning: many switches at once."""
