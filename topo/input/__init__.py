"""Input of people and files: quantities with units, sentences for errors, safe files and directories."""
