"""Faults: their models, what is done for each, and the time line that does it.

Empty on purpose: scenarios import `lab.faults.models`, which needs no running lab. `lab.faults.timeline` injects and
clears.
"""
