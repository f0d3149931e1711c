"""The machine that carries runs: its system and size, and the versions of what runs on it."""

import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from mrclab import compiled

_VERSIONED = ("mrclab", "finsy", "grpcio", "protobuf", "pydantic", "scapy", "matplotlib")
_KERNEL = re.compile(r"([A-Za-z]+)-(\d+\.\d+)")


def about() -> dict[str, Any]:
    """Return system, cores and memory of this machine, as results keep them."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {"system": platform.platform(), "cores": os.cpu_count() or 1, "memory_gib": round(pages * size / 2**30, 1)}


def size_text(machine: Mapping[str, Any]) -> str:
    """Return cores and memory of a machine: `4 cores, 15.6 GiB`."""
    return f"{machine.get('cores')} cores, {machine.get('memory_gib')} GiB"


def system_text(machine: Mapping[str, Any]) -> str:
    """Return the system of a machine and its version, `Linux 6.1`: its build may tell whose machine it is."""
    found = _KERNEL.match(str(machine.get("system", "")))
    return f"{found[1]} {found[2]}" if found else "an unknown system"


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on, and the form of transport and simulator that runs."""
    import importlib.metadata  # noqa: PLC0415 - once a run is over

    found = {"python": platform.python_version(), "kernel": platform.release()}
    found["transport and simulator:"] = compiled.state().text
    for name in _VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found
