"""Prometheus metrics of the controller."""
