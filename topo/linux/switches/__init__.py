"""Switch processes: kinds of P4 switch, and their queues."""
