"""Processes of the lab: their scheduling and their lateness."""
