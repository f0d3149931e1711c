"""Checks of a whole scenario: consistency of its parts, overlapping faults, order in time."""
