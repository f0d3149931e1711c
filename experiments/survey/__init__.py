"""Surveys of Clustermapper: seeded faults on a real fabric, its verdicts, and the benefit of denying them."""
