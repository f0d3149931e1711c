"""Cables of a running fabric, and their faults."""
