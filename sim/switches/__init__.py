"""Switches in virtual time: forwarding, egress ports, shared buffer, load balancing."""
