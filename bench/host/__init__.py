"""Benchmark of a host: packets per second, and CPU time by part."""
