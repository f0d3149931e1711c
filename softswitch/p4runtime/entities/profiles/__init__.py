"""Action profiles: members and groups, one-shot programming, watch ports."""
