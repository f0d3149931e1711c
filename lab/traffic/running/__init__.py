"""Drivers: one traffic of a scenario while it runs, from set-up to the comparison of both ends."""
