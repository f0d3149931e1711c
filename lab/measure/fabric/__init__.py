"""Measures of the fabric: effect of faults, paths and EVs, counters of switches."""
