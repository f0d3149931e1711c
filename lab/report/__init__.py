"""Results of a run: its result directory, and the same facts for terminal, page and machine."""
