"""The generated protobuf modules of P4Runtime, which finsy ships."""

from finsy.proto import p4i, p4r, p4t, rpc_status

__all__ = ["p4i", "p4r", "p4t", "rpc_status"]
