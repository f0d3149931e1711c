"""Scenario files: their fields, and everything that can be wrong with one. Starts nothing."""
