"""Input from users and files: quantities with units, sentences for errors, safe files and directories."""
