"""Configuration of hosts: the transport section of a scenario, and the node config that a host agent reads."""
