"""Every run of small worlds: the transport's own code, explored state by state to the end."""
