"""Drivers: each runs one traffic of a scenario, from set-up to the comparison of both ends."""
