"""Cables of a running fabric, and what can be done to them."""
