"""Common part of both transports' endpoints: verbs, NIC ports, timers, and statistics."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, Final, Generic, TypeVar

from typing_extensions import override

from mrclab.hosts.nic.interface import Transport
from mrclab.hosts.rdma.events import AsyncEvents
from mrclab.hosts.rdma.memory import MemoryTable
from mrclab.hosts.rdma.qp import AnyQueuePair, QpInit
from mrclab.hosts.rdma.timers import Timers
from mrclab.hosts.rdma.verbs import Verbs
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.economy import Secrets

_DISCARDS: Final = ("icrc_errors", "malformed", "foreign", "misdelivered", "no_qp")


class TransportPort:
    """One NIC port as the transport sees it."""

    __slots__ = ("carrier", "counters", "enabled", "number", "placed_bytes", "plane", "up")

    def __init__(self, number: int, plane: int) -> None:
        self.number = number
        self.plane = plane
        self.carrier = False
        self.enabled = True  # administrative state, set by the controller
        self.up = False  # carrier and enabled
        self.placed_bytes = 0  # payload written to memory
        self.counters: Counter[str] = Counter()  # discarded frames by reason

    def snapshot(self) -> dict[str, Any]:
        """Return state and counters, as samples have them."""
        return {"up": self.up, "placed_bytes": self.placed_bytes, **{kind: self.counters[kind] for kind in _DISCARDS}}


P = TypeVar("P", bound=TransportPort)
Qp = TypeVar("Qp", bound=AnyQueuePair)


class PortTable(Generic[P]):
    """NIC ports of one host. `on_change(port, now)` is called after one came up or went down."""

    def __init__(
        self, ports: Iterable[P], log: Callable[[dict[str, Any]], object], on_change: Callable[[P, float], None]
    ) -> None:
        self.by_number = {port.number: port for port in ports}
        self.by_plane = {port.plane: port for port in self.by_number.values()}
        self._log = log
        self._on_change = on_change

    def set_carrier(self, number: int, carrier: bool, now: float) -> None:
        """The carrier was lost or returned."""
        port = self.by_number[number]
        port.carrier = carrier
        self._update(port, now)

    def set_admin(self, number: int, enabled: bool, now: float) -> None:
        """The controller disabled a port, or enabled it again."""
        port = self.by_number[number]
        port.enabled = enabled
        self._update(port, now)

    def state(self, number: int) -> dict[str, bool]:
        """Carrier, administrative state, and both."""
        port = self.by_number[number]
        return {"enabled": port.enabled, "carrier": port.carrier, "up": port.up}

    def plane_up(self, plane: int) -> bool:
        """Return True if the port of a plane is up."""
        return self.by_plane[plane].up

    def _update(self, port: P, now: float) -> None:
        up = port.carrier and port.enabled
        if port.up == up:
            return
        port.up = up
        self._log({"kind": "port.state", "port": port.number, "up": up})
        self._on_change(port, now)


def _ignore_work() -> None:
    """Do nothing: a NIC that polls its transport needs no notification."""


class Endpoint(Transport, Generic[P, Qp]):
    """Transport of one host: verbs, ports and timers; a subclass makes and reads the packets.

    `log` appends a history record. Keys, QPNs and first PSNs are drawn from `secrets`, by default from `rng`.
    """

    transport_name: ClassVar[str]  # in messages
    remote_attributes: ClassVar[tuple[str, ...]] = ("qpn", "psn")  # of the peer's `local_info`, needed for RTR

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], object],
        secrets: Secrets | None,
        ports: Iterable[P],
    ) -> None:
        self.config = config
        self.rng = rng
        self.log = log
        self.on_work = _ignore_work
        self.timers = Timers()
        self.ports: PortTable[P] = PortTable(ports, log, self._port_changed)
        self.events = AsyncEvents(log)
        self.secrets: Secrets = secrets or rng
        self.memory = MemoryTable(self.secrets)
        self.verbs: Verbs[Qp] = Verbs(self)
        self._qps: dict[int, Qp] = self.verbs.qps
        self._ports_sampled: list[bool] | None = None

    # --- QPs --------------------------------------------------------------------------------------

    def query_device(self) -> dict[str, Any]:
        """Return capabilities and profiles; the verbs' `query_device` adds the limits."""
        raise NotImplementedError

    def make_qp(self, init: QpInit, peer: str, attributes: dict[str, Any], now: float) -> Qp:
        """Return a new QP; VerbsError for an invalid peer or attributes, without any change."""
        raise NotImplementedError

    def qp_connected(self, qp: Qp, now: float) -> None:
        """A QP reached RTR."""

    def qp_destroyed(self, qp: Qp) -> None:
        """A QP was destroyed."""

    # --- time and ports ---------------------------------------------------------------------------

    @override
    def next_deadline(self) -> float | None:
        return self.timers.next_deadline()

    @override
    def not_before(self) -> float:
        return self.timers.not_before

    @override
    def on_timer(self, now: float) -> None:
        self.timers.run(now)

    @override
    def port_event(self, port: int, up: bool, now: float) -> None:
        self.ports.set_carrier(port, up, now)

    def _port_changed(self, port: P, now: float) -> None:
        """A port went down or came up."""
        raise NotImplementedError

    # --- operation --------------------------------------------------------------------------------

    def update_config(self, config: NodeConfig, now: float) -> None:
        """Use a new node config for future QPs."""
        self.config = config

    def check_progress(self, now: float) -> None:
        """Report QPs without progress; called with every sample."""

    # --- samples ----------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return state and cumulative counters: lists `qps` and `paths`, a dict `ports` by number."""
        return self._rows(self._qps.values())

    def changed_stats(self) -> dict[str, Any]:
        """Return `stats` of the QPs that changed since the last call, and reset every QP's `max_gap`."""
        up = [port.up for port in self.ports.by_number.values()]
        ports_changed, self._ports_sampled = up != self._ports_sampled, up
        qps = self._qps.values()
        found = self._rows([qp for qp in qps if qp.changed() or ports_changed])
        for qp in qps:
            if qp.known_responder is not None:
                qp.known_responder.max_gap = 0.0
        return found

    def _rows(self, qps: Collection[Qp]) -> dict[str, Any]:
        return {
            "qps": [qp.snapshot() for qp in qps],
            "paths": [path for qp in qps for path in qp.path_snapshots()],
            "ports": {port.number: port.snapshot() for port in self.ports.by_number.values()},
        }
