"""What a scenario file may say, and everything that can be wrong with one. Starts nothing."""
