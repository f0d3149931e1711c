"""Event log of a node: JSON lines on the machine's monotonic clock."""

import json
from pathlib import Path
from typing import Any


class AgentHistory:
    """Appends records to a file and passes each to the listeners.

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
