"""Summary of a lab that is up, in a terminal; packets on its cables for drawing."""
