"""An embedded P4 target: runs the output of p4c's bmv2 backend for v1model, as simple_switch_grpc does."""
