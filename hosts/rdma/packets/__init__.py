"""Common parts of MRC and RoCEv2 packets."""
