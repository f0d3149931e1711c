"""The control plane: provisions switches by P4Runtime, verifies cables, watches, and writes the node config files."""
