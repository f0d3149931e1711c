"""Fork server: one process imports what the others run, and starts each of them by a fork."""
