"""Imports grpc without its asyncio half, which a switch does not use: 3 MB and 30 ms less in every process.

`import grpc` also imports `grpc.aio` and asyncio, with ssl behind it. For the moment of that import, empty modules
stand in their place; afterwards `import asyncio` gives the real one again.

gRPC's core hands what a server's sockets say from thread to thread by default (its event engine). Without that, the
thread that waits for requests looks at the sockets itself: half the changes of threads per RPC.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

REPLACED = ("asyncio", "grpc.aio")
EXPERIMENTS = ("GRPC_EXPERIMENTS", "-event_engine_listener")
"""What gRPC's core looks at when it is imported; who has set it knows what he wants."""


def leave_out_the_event_engine() -> None:
    """Have a server's own threads look at its sockets, where grpc has not been imported yet."""
    os.environ.setdefault(*EXPERIMENTS)


def load_grpc() -> None:
    """Import grpc, lean where nobody has imported it or asyncio yet. For processes that are nothing but a switch."""
    leave_out_the_event_engine()
    if any(name in sys.modules for name in ("grpc", *REPLACED)):
        return
    for name in REPLACED:
        sys.modules[name] = ModuleType(name)
    try:
        import grpc  # noqa: F401, PLC0415 - this is the purpose
    finally:
        for name in REPLACED:
            del sys.modules[name]
