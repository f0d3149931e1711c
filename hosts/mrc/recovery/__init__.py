"""Loss recovery of one requestor: window, bytes in flight, loss detection, round-trip times."""
