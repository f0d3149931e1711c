"""The P4Runtime 1.x server of the switch, in place of PI in `simple_switch_grpc`.

`server` joins gRPC to a `device`; `arbitration` decides who may write; `p4info` knows ids, names and widths; `values`
and `matches` translate between protobuf and the data plane; each module of `entities` holds one kind of
entity. Codes and wording of errors follow PI, because controllers are written against it.
"""
