"""What a person drives: command line, scenarios, faults, measurement, report."""
