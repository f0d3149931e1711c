"""Links in virtual time: cables, what ends them, and the faults of their frames."""
