"""The end host: transports without I/O, the NIC that carries them, and the agent that runs both."""
