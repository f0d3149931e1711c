"""The prompt of a lab that is up: its commands, their session, and the socket through which others use them."""
