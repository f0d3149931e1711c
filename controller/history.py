"""The controller's events: one JSON line each in the run's history, and to whoever listens."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NODE = "controller"
FREQUENT = {"switches", "map", "pulse"}  # kinds that would fill the log

log = logging.getLogger(__name__)

Listener = Callable[[dict[str, Any]], None]


class ControllerHistory:
    """Appends events to a file as `{"t", "node", "kind", …}`, t on CLOCK_MONOTONIC in seconds; flushed line by line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1)
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every event from now on."""
        self._listeners.append(listener)

    def record(self, kind: str, **fields: Any) -> None:
        """Write one event and hand it on."""
        event = {"t": time.monotonic(), "node": NODE, "kind": kind, **fields}
        self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
        level = logging.DEBUG if kind in FREQUENT else logging.INFO
        log.log(level, "%s %s", kind, " ".join(f"{name}={value}" for name, value in fields.items()))
        for listener in self._listeners:
            listener(event)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
