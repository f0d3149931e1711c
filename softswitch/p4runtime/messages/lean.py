"""Imports grpc without its asyncio half, which a switch does not use: 3 MB and 30 ms less in every process.

`import grpc` also imports `grpc.aio` and asyncio, with ssl behind it. For the moment of that import, empty modules
stand in their place; afterwards `import asyncio` gives the real one again.
"""

from __future__ import annotations

import sys
from types import ModuleType

REPLACED = ("asyncio", "grpc.aio")


def load_grpc() -> None:
    """Import grpc, lean where nobody has imported it or asyncio yet. For processes that are nothing but a switch."""
    if any(name in sys.modules for name in ("grpc", *REPLACED)):
        return
    for name in REPLACED:
        sys.modules[name] = ModuleType(name)
    try:
        import grpc  # noqa: F401, PLC0415 - this is the purpose
    finally:
        for name in REPLACED:
            del sys.modules[name]
