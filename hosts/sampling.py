"""Samples of a host: what the transport and the NIC count, ten times a second, for history and for whoever asks.

All counters are cumulative since the agent's start, so that a missed sample loses nothing. Bytes and seconds.
"""

import resource
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from hosts.nic import Nic

INTERVAL_S = 0.1
KEPT = 6000
"""Samples kept in memory for the `samples` operation: ten minutes."""


class Counted(Protocol):
    """The part of the transport that is sampled."""

    def stats(self, reset_gaps: bool = False) -> dict[str, Any]:
        """Return lists `qps`, `paths`, and a dict `ports` by number; start `max_gap` of QPs afresh if told."""


class Sampler:
    """Takes samples of one host."""

    def __init__(self, nic: Nic, transport: Counted, record: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._nic = nic
        self._transport = transport
        self._record = record
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def current(self, reset_gaps: bool = False) -> dict[str, Any]:
        """Return what a sample would say now."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        stats = self._transport.stats(reset_gaps)
        by_port = stats.pop("ports", {})
        ports = [port.counters()._asdict() | by_port.get(port.number, {}) for port in self._nic.ports]
        return {
            **stats,
            "ports": ports,
            "cpu": round(usage.ru_utime + usage.ru_stime, 6),
            "delayed_frames": len(self._nic.delay_line),
            "delay_line_drops": self._nic.delay_line.drops,
        }

    def take(self, _now: float) -> None:
        """Write one sample; lateness and gaps are the worst since the one before."""
        nic = self._nic
        late = max(port.pacer.take_worst_late() for port in nic.ports)
        receive_late, nic.worst_receive_late = nic.worst_receive_late, 0.0
        lateness = {"late": round(late, 6), "receive_late": round(receive_late, 6)}
        self._kept.append(self._record({"kind": "sample", **self.current(reset_gaps=True), **lateness}))

    def since(self, t: float) -> list[dict[str, Any]]:
        """Return the kept samples taken after `t`."""
        return [sample for sample in self._kept if sample["t"] > t]
