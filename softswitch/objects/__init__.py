"""The objects of a running program: tables, selectors, meters, digests, multicast and clone groups."""
