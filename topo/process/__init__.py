"""Processes of the lab: their scheduling, their lateness, and the control of the nodes that they run."""
