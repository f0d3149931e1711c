"""Code for packets: parser, headers and deparser."""
