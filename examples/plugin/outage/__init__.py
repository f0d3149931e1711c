"""A kind of each thing that MRC Lab takes from outside, which finds them by the entry points in pyproject.toml."""
