"""Traffic: its models by kind, and the drivers that run it in a world."""
