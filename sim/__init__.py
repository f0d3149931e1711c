"""The fabric and its hosts in virtual time: event heap, ports, cables and NICs around the lab's own transport."""
