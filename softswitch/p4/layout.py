"""Contract between the generated code and the switch: the fixed part of a queue state, and values in it.

A queue state is the tuple (egress function, data, length, instance type, rid, truncation, *fields that the program
keeps).
"""

SPILL_PREFIX = 6
"""Number of fixed items of a queue state."""

UNCUT = 1 << 31
"""The truncation length of a packet that is not to be truncated."""

INGRESS_CLONE, EGRESS_CLONE, RECIRCULATED, REPLICATED, RESUBMITTED = 1, 2, 4, 5, 6
"""instance_type values (PktInstanceType of simple_switch); 0 is a normal packet."""
