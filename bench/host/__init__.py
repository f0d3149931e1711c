"""Benchmark of a host: packets per second, and where its CPU time goes."""
