"""Workloads: traffic that an agent generates, message by message, driven by its transport's completions."""
