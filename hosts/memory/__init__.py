"""Memory that a peer writes into: files mapped, and kept whole whatever happens to them."""
