"""Analyses of a program: facts known at each point, liveness of fields, control-flow graphs of pipelines."""
