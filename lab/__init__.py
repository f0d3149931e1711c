"""User interface: command line, scenarios, faults, measurement, report."""
