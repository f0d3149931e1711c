"""The RoCEv2 RC baseline: go-back-N over plain IPv6, one path per QP by ECMP, DCQCN. The same sans-I/O shape as MRC."""
