"""The process of one host: its transport on its NIC, driven over a Unix socket."""
