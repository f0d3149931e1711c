"""Paths: losses, EV transitions, the share of packets of each path, and the paths over a fault."""

import functools
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from mrclab.lab.history import History
from mrclab.lab.measure.samples import Samples
from mrclab.lab.measure.traffic.flows import MeasuredFlow, MeasuredFlows
from mrclab.lab.measure.traffic.rates import Path
from mrclab.topo import srv6
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric

USABLE = frozenset({"GOOD", "SKIP", "STANDBY"})
IN_USE = frozenset({"GOOD", "SKIP"})
OUT = frozenset({"ASSUMED_BAD", "PORT_DOWN"})

EvKey = tuple[str, int, int]  # host, QP, EV
Span = tuple[float, float, str]  # begin, end, state


class PacketLoss(NamedTuple):
    """A packet, or several in one record, that the sender declared lost at `t`, last sent at `sent` over `path`."""

    t: float
    host: str
    qp: int
    psn: int
    path: Path
    reason: str
    sent: float
    packets: int = 1


class EvChange(NamedTuple):
    """An EV of a QP that changed its state."""

    t: float
    host: str
    qp: int
    ev: int
    path: Path
    old: str
    new: str
    reason: str

    @property
    def key(self) -> EvKey:
        """Key of the EV."""
        return self.host, self.qp, self.ev


class Paths:
    """Losses and EVs of one run."""

    def __init__(self, fabric: Fabric, history: History, flows: MeasuredFlows, samples: Samples) -> None:
        self._fabric = fabric
        self._history = history
        self._flows = flows
        self._samples = samples
        self._crosses: dict[tuple[str, int, Path, tuple[str, ...]], bool] = {}
        self._links: dict[tuple[str, str, Path], frozenset[str]] = {}

    @cached_property
    def losses(self) -> list[PacketLoss]:
        """Every packet that was declared lost."""
        return [
            PacketLoss(
                r.t, r.node, r["qp"], r.get("psn", 0), ev_path(r.get("ev", 0)), r.get("reason", ""),
                r.get("sent", r.t), int(r.get("count", 1)),
            )
            for r in self._history.of("packet.lost")
        ]  # fmt: skip

    @cached_property
    def retransmitted(self) -> list[float]:
        """Time of every retransmission."""
        return [r.t for r in self._history.of("packet.retx") for _ in range(int(r.get("count", 1)))]

    @property
    def not_retransmitted(self) -> list[PacketLoss]:
        """Losses after which the packet was neither retransmitted nor found to have arrived in the meantime."""
        last: dict[tuple[str, int, int], float] = {}
        for record in self._history.of("packet.retx", "packet.late"):
            last[record.node, record["qp"], record.get("psn", 0)] = record.t
        return [loss for loss in self.losses if last.get((loss.host, loss.qp, loss.psn), -1.0) < loss.t]

    @cached_property
    def changes(self) -> list[EvChange]:
        """Every change of an EV's state, in order."""
        found = []
        for r in self._history.of("ev.state"):
            get, ev = r.data.get, r.data["ev"]
            path = ev_path(ev)
            found.append(
                EvChange(r.t, r.node, r.data["qp"], ev, path, get("old", ""), get("new", ""), get("reason", ""))
            )
        return found

    @cached_property
    def last_out(self) -> float:
        """Time of the last change of an EV out of use or back; 0 where there was none."""
        return max((change.t for change in self.changes if change.old in OUT or change.new in OUT), default=0.0)

    @cached_property
    def packets(self) -> dict[Path, int]:
        """Data packets sent over each path, by all senders."""
        found: dict[Path, int] = defaultdict(int)
        for (host, qp, _), series in self._samples.paths.items():
            if self._flows.of_sender(host, qp):
                sent = series.count("sent_packets").values
                found[series.path] += int(sent[-1]) if sent else 0
        return dict(sorted(found.items()))

    def links(self, flow: MeasuredFlow, path: Path) -> frozenset[str]:
        """Names of the cables that a path of a flow leads over; empty where the fabric has no such path."""
        key = flow.source, flow.destination, path
        if key not in self._links:
            try:
                found = self._fabric.path_links(flow.source, flow.destination, *path)
                self._links[key] = frozenset(link.name for link in found)
            except TopoError:
                self._links[key] = frozenset()
        return self._links[key]

    def crosses(self, host: str, qp: int, path: Path, links: Iterable[str]) -> bool:
        """Return True if a path of the flow that a QP belongs to leads over one of some cables."""
        key = host, qp, path, tuple(links)
        if key not in self._crosses:
            self._crosses[key] = self._leads_over(*key)
        return self._crosses[key]

    def _leads_over(self, host: str, qp: int, path: Path, links: tuple[str, ...]) -> bool:
        flow = self._flows.of_sender(host, qp) or self._flows.by_receiver.get((host, qp))
        flows = [flow] if flow else [f for f in self._flows if host in {f.source, f.destination}]
        chosen = frozenset(links)
        return any(self.links(flow, path) & chosen for flow in flows)

    @cached_property
    def sender_evs(self) -> dict[EvKey, Path]:
        """All EVs of QPs that send, with their paths."""
        found = {
            key: series.path for key, series in self._samples.paths.items() if self._flows.of_sender(key[0], key[1])
        }
        for change in self.changes:
            if change.key not in found and self._flows.of_sender(change.host, change.qp):
                found[change.key] = change.path
        return found

    def spans(self, begin: float, end: float) -> dict[EvKey, list[Span]]:
        """States of every EV of a sending QP between two times, as (begin, end, state); from its flow's start."""
        changes: dict[EvKey, list[tuple[float, str]]] = {key: [] for key in self.sender_evs}
        for change in self.changes:
            rows = changes.get(change.key)
            if rows is not None:
                if not rows:
                    rows.append((begin, change.old or change.new))
                rows.append((change.t, change.new))
        found: dict[EvKey, list[Span]] = {}
        for key, rows in changes.items():
            sampled = self._samples.paths.get(key)
            if not rows and sampled and sampled.states:
                rows.append((begin, sampled.states[0][1]))
            flow = self._flows.of_sender(key[0], key[1])
            first = max(begin, flow.begin) if flow else begin
            ends = [t for t, _ in rows[1:]] + [end]
            clipped = [(max(t, first), min(until, end), state) for (t, state), until in zip(rows, ends, strict=True)]
            found[key] = [span for span in clipped if span[1] > span[0]]
        return {key: spans for key, spans in found.items() if spans}

    def state_at(self, t: float) -> dict[EvKey, str]:
        """The state of every EV of a sending QP just before a time."""
        found: dict[EvKey, str] = {}
        for key in self.sender_evs:
            sampled = self._samples.paths.get(key)
            found[key] = sampled.states[0][1] if sampled and sampled.states else "GOOD"
        changes = [change for change in self.changes if change.key in found]
        found |= {change.key: change.old for change in reversed(changes) if change.old}
        return found | {change.key: change.new for change in changes if change.t < t}


def path_name(plane: int, uplink: int) -> str:
    """Return a path in words: `plane 1, T1 2`; inside a T0 group the plane alone."""
    return f"plane {plane}, T1 {uplink}" if uplink else f"plane {plane}"


@functools.cache
def ev_path(ev: int) -> Path:
    """Plane and uplink of an EV; a transport without EVs has the one path (1, 0)."""
    if not ev:
        return 1, 0
    fields = srv6.ev_fields(ev)
    return fields.plane, fields.uplink
