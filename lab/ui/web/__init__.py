"""Web server of the live page: a process of its own, on the loopback address, with a token."""
