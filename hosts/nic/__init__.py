"""The NIC: carries frames between a host's transport and its ports, on time."""
