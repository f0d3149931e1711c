"""Benchmark of virtual time: hosts that all send, on links of 100 Gb/s."""
