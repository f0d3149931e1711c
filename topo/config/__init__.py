"""Configuration of hosts: what a scenario's transport sets, and the node config that a host agent reads."""
