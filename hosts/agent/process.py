"""Parts of a host in a process of its own: operations (identity, node config file, shutdown), event log, garbage."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrclab.hosts.agent.host import RunningHost
from mrclab.topo.config.nodeconfig import load


class ProcessOperations:
    """Methods without underscore are operations."""

    def __init__(self, host: RunningHost, config_path: Path, stop: Callable[[], None]) -> None:
        self._host = host
        self._hello = host.operations["hello"]
        self._config_path = config_path
        self._stop = stop

    def hello(self) -> dict[str, Any]:
        """Return the host's name, the state of its ports, and `pid`, which changes with every restart."""
        return {**self._hello(), "pid": os.getpid()}

    def configure(self, path: str | None = None) -> dict[str, int]:
        """Read the node config file again, or another one, and apply it if it is newer."""
        return self._host.update(lambda: load(Path(path) if path else self._config_path))

    def shutdown(self) -> None:
        """End the agent after this response."""
        self._stop()


class AgentHistory:
    """Event log of a node: JSON lines on the machine's monotonic clock.

    A record holds `t` (monotonic seconds), `node`, `kind` and the kind's fields. Lines reach the file at `flush`.
    """

    def __init__(self, path: Path, node: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", buffering=1 << 20)
        self._node = node
        self._encode = json.JSONEncoder(separators=(",", ":")).encode

    def write(self, t: float, record: dict[str, Any]) -> dict[str, Any]:
        """Append one record that happened at `t` and return it complete."""
        whole = {"t": round(t, 6), "node": self._node, **record}
        self._file.write(self._encode(whole) + "\n")
        return whole

    def flush(self) -> None:
        """Make all records written so far readable for others."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close."""
        self._file.close()


COLLECTION_INTERVAL_S = 1.0
QUIET_FRAMES = 100
"""A NIC counts as idle if it sent and received fewer frames since the last tick: probes and link checks."""

_NEW_OBJECTS = 10_000  # fewer are not worth a check


class Collector:
    """Garbage collection of an agent while its NIC is idle; `frames` returns those sent and received.

    A full collection takes a process of this size 50 to 100 ms, and agents with equal work reach it at the same moment,
    so that on few cores all of them are late by several times that. Sending and receiving makes no cycles; garbage of
    other operations, such as refused ones, can wait: the automatic collector is off, and `tick` is to be called every
    COLLECTION_INTERVAL_S.
    """

    def __init__(self, frames: Callable[[], int]) -> None:
        self._frames = frames
        self._seen = 0
        gc.collect()
        gc.freeze()
        gc.disable()

    def tick(self, _now: float) -> None:
        """Collect if the NIC is idle and there may be garbage."""
        seen, self._seen = self._seen, self._frames()
        if self._seen - seen < QUIET_FRAMES and gc.get_count()[0] > _NEW_OBJECTS:
            gc.collect()
