"""An embedded P4 target: runs what p4c's bmv2 backend emits for v1model, as simple_switch_grpc does."""
