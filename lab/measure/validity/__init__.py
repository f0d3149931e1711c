"""Validity of a run: evidence behind its figures, lateness and load of the machine."""
