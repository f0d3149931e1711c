"""What the transports of the lab share, MRC and RoCEv2 alike: RDMA's verbs and reliable connections, without I/O."""
