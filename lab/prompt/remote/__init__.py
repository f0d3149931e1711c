"""Commands from other terminals and from the page: socket, client, and whose turn it is."""
