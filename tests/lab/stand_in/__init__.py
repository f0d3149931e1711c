"""Takes a switch program's place: listens where a switch would, and forwards nothing."""
