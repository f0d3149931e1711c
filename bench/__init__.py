"""Benchmarks of the parts on this machine, beside the best peer available. Each needs root and a quiet machine."""
