"""Code for expressions: operators with the range of their results, hashes and checksums."""
