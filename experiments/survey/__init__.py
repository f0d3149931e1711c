"""Surveys of Clustermapper: seeded faults on a real fabric, what was said of them, and what denying them is worth."""
