"""Workloads: traffic that an agent makes by itself, message by message, from the completions of its own transport."""
