"""Links in virtual time: cables, link ends, and faults of frames."""
