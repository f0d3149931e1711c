"""How fast virtual time goes: hosts that all send, on links of 100 Gb/s."""
