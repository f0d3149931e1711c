"""Drill: a run in which a part of the lab is killed, stopped, filled, removed or flooded at a random moment."""
