"""Memory that a peer writes into: files mapped, and protected from truncation."""
