"""The fabric on this machine: namespaces, switch processes, and what removes them again."""
