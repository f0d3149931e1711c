"""The agent's side of lib_mrc.so: users' programs on this host's NIC. See docs/ocp-api.md."""

from typing import Final

SUFFIX: Final = ".verbs"
"""Suffix of the socket for such programs, after the host's name."""
