"""Drivers: each runs one workload of a scenario, from set-up to the comparison of both ends."""
