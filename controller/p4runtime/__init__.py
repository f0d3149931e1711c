"""One P4Runtime connection to each switch, and what is done with it."""
