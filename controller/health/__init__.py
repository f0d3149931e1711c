"""Health of the fabric by the hosts' probes, and the denylist."""
