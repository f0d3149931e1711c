"""The stream channel: arbitration, packets, digests, idle notifications."""
