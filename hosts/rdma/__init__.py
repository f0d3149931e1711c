"""Common base of the lab's transports, MRC and RoCEv2: RDMA's verbs and reliable connections, without I/O."""
