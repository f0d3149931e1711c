"""Files of a scenario: YAML with line numbers, and input files that it names."""
