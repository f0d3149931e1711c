"""Topologies of this tree, one family a module."""
