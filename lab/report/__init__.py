"""What a run leaves behind: its result directory, and the same facts for terminal, page and machine."""
