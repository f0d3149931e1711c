"""Counters and meters: by index, and by table entry."""
