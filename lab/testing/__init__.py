"""The lab in other people's tests: the pytest plugin and its fixture."""
