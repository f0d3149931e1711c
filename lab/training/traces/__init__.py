"""Recorded jobs: Chakra execution traces and GOAL schedules, read into graphs."""
