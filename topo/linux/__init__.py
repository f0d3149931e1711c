"""The fabric on this machine: namespaces, switch processes, and their removal."""
