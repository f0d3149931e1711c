"""What the hosts' probes say of the fabric, and what is denied for it."""
