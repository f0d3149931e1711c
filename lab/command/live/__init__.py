"""Commands for a lab that is up, and the one that brings it up."""
