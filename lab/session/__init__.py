"""A lab that is up: the one way to drive it, for runs, the prompt, tests, surveys and the Python API."""
