"""The controller's events: one JSON line each in the run's history, and to subscribers."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrclab.events.controller import ControllerHeartbeat
from mrclab.events.event import Event
from mrclab.events.mapping import CableMap
from mrclab.events.switches import SwitchTotals

NODE = "controller"
FREQUENT = {SwitchTotals.kind, CableMap.kind, ControllerHeartbeat.kind}  # kinds that would fill the log

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

    def record(self, event: Event) -> None:
        """Write one event and hand it on."""
        fields = event.fields()
        record = {"t": time.monotonic(), "node": NODE, "kind": event.kind, **fields}
        self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        level = logging.DEBUG if event.kind in FREQUENT else logging.INFO
        log.log(level, "%s %s", event.kind, " ".join(f"{name}={value}" for name, value in fields.items()))
        for listener in self._listeners:
            listener(record)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
