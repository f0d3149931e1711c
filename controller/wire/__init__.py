"""The controller on the wire: its process, agents, node files and history."""
