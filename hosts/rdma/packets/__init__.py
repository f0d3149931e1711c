"""What MRC and RoCEv2 packets have in common."""
