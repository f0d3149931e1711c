"""A scenario over seeds and swept fields: each combination a run in virtual time, on all cores or on Ray, resumable."""
