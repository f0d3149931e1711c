"""A fault and an expectation for MRC Lab, which finds them by the entry points in pyproject.toml."""
