"""Benchmark of bring-up: a lab of real processes by parts, and the memory of its switches."""
