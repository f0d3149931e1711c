"""A compiled P4 program: read from BMv2 JSON, and kept compiled."""
