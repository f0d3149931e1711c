"""Switches brought to what they should hold, and every cable verified."""
