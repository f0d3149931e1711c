"""The lab in users' tests: the pytest plugin and its fixture."""
