"""P4Runtime: one session per switch, provisioning, audits."""
