"""Samples of a host: counters of transport and NIC at a steady interval, for history and the operation `samples`.

All counters are cumulative since the agent's start, so that a missed sample loses nothing. Bytes and seconds. An
operation returns all of them; the history, ten times a second, has only fields that changed since the sample before: a
QP or path that did not change has no row, an unchanged number has no field, and a field that never appeared is 0.
"""

from collections import deque
from collections.abc import Callable, Container
from typing import Any

from mrclab.hosts.nic.interface import NicPorts
from mrclab.hosts.transports import Endpoint

INTERVAL_S = 0.1
KEPT = 6000
"""Samples kept in memory for the `samples` operation: ten minutes."""
KEPT_ROWS = 16_384
"""Rows of QPs, paths and ports that they may hold, some 400 bytes each: ten minutes of many EVs took 40 MB."""


class Changes:
    """Changed rows of QPs since the last sample; a row is identified by its first `keys` fields."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys
        self._shapes: dict[tuple[str, ...], tuple[str, ...]] = {}  # field names, one object for all rows
        self._reported: dict[int, dict[tuple[Any, ...], tuple[tuple[str, ...], tuple[Any, ...]]]] = {}  # by QP and key

    def of(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows that changed, with their keys and changed fields; a new row omits fields that are 0."""
        found = []
        for row in rows:
            key, names = tuple([row[name] for name in self._keys]), tuple(row)
            reported_rows = self._reported.setdefault(row["qp"], {})
            before, now = reported_rows.get(key), (self._shapes.setdefault(names, names), tuple(row.values()))
            if before == now:
                continue
            reported_rows[key] = now
            if before is None:
                changed = {name: value for name, value in row.items() if value or name in self._keys}
            else:
                old = dict(zip(*before, strict=True))
                changed = {
                    name: value
                    for name, value in row.items()
                    if name in self._keys or name not in old or old[name] != value
                }
            found.append({name: round(v, 9) if v.__class__ is float else v for name, v in changed.items()})
        return found

    def forget(self, left: Container[int]) -> None:
        """Forget rows of destroyed QPs, which would otherwise be most of the memory."""
        for qp in [qp for qp in self._reported if qp not in left]:
            del self._reported[qp]


_NOT_IN_HISTORY = ("last_placed",)  # moves with every packet, and `max_gap` carries the same information


class Sampler:
    """Takes samples of one host, and keeps the newest `kept`, of these no more than `KEPT_ROWS`."""

    def __init__(
        self, nic: NicPorts, transport: Endpoint, record: Callable[[dict[str, Any]], dict[str, Any]], kept: int = KEPT
    ) -> None:
        self._nic = nic
        self._transport = transport
        self._record = record
        self._most_kept, self._kept_rows = kept, 0
        self._kept: deque[dict[str, Any]] = deque()
        self._qps, self._paths = Changes("qp"), Changes("qp", "ev", "plane", "uplink")

    def current(self) -> dict[str, Any]:
        """Return all current values."""
        return self._whole(self._transport.stats())

    def _whole(self, stats: dict[str, Any]) -> dict[str, Any]:
        """Return the transport's numbers with those of the NIC."""
        by_port = stats.pop("ports", {})
        ports = [port.counters()._asdict() | by_port.get(port.number, {}) for port in self._nic.ports]
        return {**stats, "ports": ports, **self._nic.load()}

    def take(self, now: float) -> None:
        """Write one sample; lateness and gaps are the maximum since the last one."""
        self._transport.check_progress(now)
        lateness = self._nic.lateness()
        sample = self._whole(self._transport.changed_stats())
        for row in sample["qps"]:
            for name in _NOT_IN_HISTORY:
                row.pop(name, None)
        changed = {"qps": self._qps.of(sample["qps"]), "paths": self._paths.of(sample.get("paths", []))}
        for changes in (self._qps, self._paths):
            changes.forget(self._transport.verbs.qps)
        taken = self._record({"kind": "sample", **sample, **changed, **lateness})
        if self._most_kept:
            self._keep(taken)

    def _keep(self, taken: dict[str, Any]) -> None:
        self._kept.append(taken)
        self._kept_rows += _rows(taken)
        while len(self._kept) > self._most_kept or self._kept_rows > KEPT_ROWS:
            self._kept_rows -= _rows(self._kept.popleft())

    def since(self, t: float) -> list[dict[str, Any]]:
        """Return the kept samples taken after `t`."""
        return [sample for sample in self._kept if sample["t"] > t]


def _rows(sample: dict[str, Any]) -> int:
    return sum(len(sample[name]) for name in ("qps", "paths", "ports"))
