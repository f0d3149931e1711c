"""The wire as a world: namespaces, processes, their events and their ends."""
