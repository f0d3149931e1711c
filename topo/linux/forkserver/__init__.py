"""Fork server: one process imports the modules of the others, and starts each of them by a fork."""
