"""Packet side of either transport besides packets: time, NIC ports that come and go, and views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final, Generic, TypeVar

from mrclab.hosts.rdma.qp import AnyQueuePair
from mrclab.hosts.rdma.verbs import Verbs

_DISCARDS: Final = ("icrc_errors", "malformed", "foreign", "misdelivered", "no_qp")


class TransportPort:
    """One NIC port as the transport sees it."""

    __slots__ = ("carrier", "counters", "enabled", "number", "placed_bytes", "plane", "up")

    def __init__(self, number: int, plane: int) -> None:
        self.number = number
        self.plane = plane
        self.carrier = False
        self.enabled = True  # by the controller
        self.up = False  # both
        self.placed_bytes = 0
        self.counters: Counter[str] = Counter()  # frames that were not taken, by reason

    def snapshot(self) -> dict[str, Any]:
        """Counters for a sample."""
        return {"up": self.up, "placed_bytes": self.placed_bytes, **{kind: self.counters[kind] for kind in _DISCARDS}}


P = TypeVar("P", bound=TransportPort)
Qp = TypeVar("Qp", bound=AnyQueuePair)


class Hosted(Verbs[Qp], Generic[P, Qp]):
    """Verbs on a NIC, as far as no packets have to be known; the transport's Endpoint makes the ports."""

    _ports: dict[int, P]
    _shown_up: list[bool] | None = None

    # --- time -------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """The calls that follow happen at `now`, seconds."""
        self.now = now

    def next_deadline(self) -> float | None:
        """Return the time at which on_timer should be called next."""
        return self.timers.next_deadline()

    def not_before(self) -> float:
        """A time before which on_timer need not be called."""
        return self.timers.not_before

    def on_timer(self, now: float) -> None:
        """Do what is due."""
        self.now = now
        self.timers.run(now)

    def check_progress(self, now: float) -> None:
        """Report QPs that make no progress; called with every sample."""
        self.now = now

    # --- ports ------------------------------------------------------------------------------------

    def port_event(self, port: int, up: bool, now: float) -> None:
        """Carrier came or went."""
        self.now = now
        entry = self._ports[port]
        entry.carrier = up
        self._compare(entry, now)

    def port_admin(self, port: int, enabled: bool, now: float) -> None:
        """The controller disables a port, or allows it again."""
        self.now = now
        entry = self._ports[port]
        entry.enabled = enabled
        self._compare(entry, now)

    def port_state(self, port: int) -> dict[str, bool]:
        """Carrier, the controller's word, and both."""
        entry = self._ports[port]
        return {"enabled": entry.enabled, "carrier": entry.carrier, "up": entry.up}

    def _compare(self, entry: P, now: float) -> None:
        up = entry.carrier and entry.enabled
        if entry.up == up:
            return
        entry.up = up
        self.log({"kind": "port.state", "port": entry.number, "up": up})
        self._port_changed(entry, now)
        self.on_work()

    def _port_changed(self, entry: P, now: float) -> None:
        """A port is up now that was down, or down that was up."""
        raise NotImplementedError

    # --- views ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Lists `qps` and `paths`, a dict `ports` by number: state, and counters that are cumulative."""
        return self._shown(self.qps.values())

    def moved(self) -> dict[str, Any]:
        """As `stats`, but only QPs that moved since this was called last; a new interval begins for every max_gap."""
        up = [port.up for port in self._ports.values()]
        ports_moved, self._shown_up = up != self._shown_up, up
        found = self._shown([qp for qp in self.qps.values() if qp.moved() or ports_moved])
        for qp in self.qps.values():
            qp.responder.max_gap = 0.0
        return found

    def _shown(self, qps: Collection[Qp]) -> dict[str, Any]:
        return {
            "qps": [qp.snapshot() for qp in qps],
            "paths": [path for qp in qps for path in self._paths_of(qp)],
            "ports": {port.number: port.snapshot() for port in self._ports.values()},
        }

    def _paths_of(self, qp: Qp) -> list[dict[str, Any]]:
        """One entry per path that a QP uses."""
        raise NotImplementedError
