"""The generated protobuf modules of P4Runtime, without the client library that ships them.

`finsy.proto` cannot be imported alone: Python runs `finsy/__init__.py` first, which loads a whole controller library
(0.1 s and several MB in every switch process). The generated files import each other relatively, so they work under any
parent package: here they become submodules of this module, found in finsy's directory. protobuf has one class per
message type and process, so messages made here and messages made through finsy are of the same types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["p4i", "p4r", "p4t", "rpc_status"]

if TYPE_CHECKING:
    from finsy.proto import p4i, p4r, p4t, rpc_status
else:
    from importlib.util import find_spec
    from pathlib import Path

    _spec = find_spec("finsy")  # finds a top-level package without running it
    if _spec is None or not _spec.submodule_search_locations:
        raise ImportError("the P4Runtime protobuf modules are missing: install finsy")
    __path__ = [str(Path(_spec.submodule_search_locations[0]) / "proto")]

    from .stubs.google.rpc import status_pb2 as rpc_status
    from .stubs.p4.config.v1 import p4info_pb2 as p4i
    from .stubs.p4.config.v1 import p4types_pb2 as p4t
    from .stubs.p4.v1 import p4runtime_pb2 as p4r
