"""Faults: models, actions, and the time line that runs the actions.

Empty on purpose: scenarios import `lab.faults.base`, which needs no running lab. `lab.faults.timeline` injects and
clears.
"""
