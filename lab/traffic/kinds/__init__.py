"""Kinds of traffic, one family a module; each registers itself. A new kind is one class in one file here."""
