"""The agent's side of lib_mrc.so: programs of other people on this host's NIC. See docs/ocp-api.md."""
