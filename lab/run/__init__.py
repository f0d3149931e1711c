"""A run: bring up the lab, drive traffic, inject faults, and take everything down again."""
