"""A scenario over seeds and swept fields: every combination a run in virtual time, on all cores, resumable."""
