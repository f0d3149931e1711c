"""The fabric and its hosts in virtual time: clock, ports, cables and NICs around the lab's own transport."""
