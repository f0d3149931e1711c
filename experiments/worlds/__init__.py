"""Both worlds side by side: the same scenarios on the wire and in virtual time, and their differences."""
