"""The switch as a process: ports, clocks, sockets."""
