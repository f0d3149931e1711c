"""A run: the lab brought up, traffic driven, faults done, and everything undone."""
