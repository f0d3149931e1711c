"""Health of the fabric as the hosts' probes show it, and what is denied for it."""
