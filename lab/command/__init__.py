"""The command `mrclab`: parses arguments and prints; the work is done elsewhere."""
