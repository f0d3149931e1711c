"""How many packets a host moves per second, and where its CPU time goes."""
