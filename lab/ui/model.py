"""Model of the page, from history records alone: fabric layout, and frames of its state over time.

Pure: no clock, no I/O.
"""

import functools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mrclab.lab.faults.base import FAULTS, FaultBase
from mrclab.lab.history import Record
from mrclab.lab.ui.phrases import PHRASES, phrase
from mrclab.topo.model import Fabric, Link, UnknownName
from mrclab.topo.srv6 import LOCATOR, UsidType, text, usid

_WINDOW = 5  # sampling intervals over which rates are taken
_MIN_CHANGE = 0.015  # of full rate: a load that changes less is reported unchanged
_EVENT_FIELDS = {
    "fault.begin": ("fault", "fault_kind", "links"), "fault.end": ("fault",), "ev.state": ("plane", "old", "new"),
}  # fmt: skip
"""Fields of events that lessons refer to."""

_CONNECTING = frozenset({"RESET", "INIT", "RTR"})  # states of a QP before RTS
_LOSSES = {"packet.lost": "lost", "packet.retx": "retransmitted", "packet.spurious": "spurious"}


class _Rate:
    """A cumulative count, read as change per second over the last samples."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()

    def add(self, t: float, value: float) -> None:
        self._points.append((t, value))

    def at(self, now: float, window: float) -> float:
        """Change per second over the last `window` seconds; 0 where the last value is older than twice that."""
        points = self._points
        while len(points) > 2 and points[1][0] <= now - window:
            points.popleft()
        if len(points) < 2 or points[-1][0] <= now - 2 * window:
            return 0.0
        (t0, first), (t1, last) = points[0], points[-1]
        return max(0.0, (last - first) / (t1 - t0)) if t1 > t0 else 0.0


class _QueueLosses:
    """Estimate of packets lost in a switch's queues: those missing between input and output in all last readings."""

    __slots__ = ("_last", "_lost")

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_WINDOW)
        self._lost = 0

    def add(self, count: int) -> int:
        """Add a reading; return the packets lost so far."""
        self._last.append(count)
        if len(self._last) == _WINDOW:
            self._lost = max(self._lost, min(self._last))
        return self._lost


class _RecentSends:
    """Packets that a host sent over each half-link in its last samples: the cost follows the packets, not the paths.

    Half-link 2n is cable n from its first end, 2n + 1 from its second.
    """

    __slots__ = ("_samples", "_sums")

    def __init__(self) -> None:
        self._sums: dict[int, int] = {}
        self._samples: deque[tuple[float, dict[int, int]]] = deque()

    def add(self, t: float, counts: dict[int, int]) -> None:
        """Add a sample: packets since the last one, by half-link."""
        self._samples.append((t, counts))
        if len(self._samples) > 1:  # the interval of the first one is unknown
            for half_link, count in counts.items():
                self._sums[half_link] = self._sums.get(half_link, 0) + count

    def into(self, loads: dict[int, float], now: float, window: float, line: float) -> None:
        """Add shares of `line` packets/s over the last `window` seconds; nothing where the last sample is too old."""
        samples, sums = self._samples, self._sums
        while len(samples) > 2 and samples[1][0] <= now - window:
            samples.popleft()
            for half_link, count in samples[0][1].items():  # from now on the first: only its time counts
                left = sums[half_link] - count
                if left:
                    sums[half_link] = left
                else:
                    del sums[half_link]
        if len(samples) < 2 or samples[-1][0] <= now - 2 * window or samples[-1][0] <= samples[0][0]:
            return
        scale = 1 / ((samples[-1][0] - samples[0][0]) * line)
        for half_link, count in sums.items():
            loads[half_link] = loads.get(half_link, 0.0) + count * scale


@dataclass
class _Qp:
    """A sending QP as its host samples it."""

    host: str
    number: int
    peer: str = ""
    traffic: str = ""
    rtt: float = 0.0
    window: float = 0.0
    sends: bool = False  # data, and not acknowledgements alone
    evs: dict[int, tuple[int, int, str]] = field(default_factory=dict)  # EV → plane, uplink, state
    rows: list[list[Any]] = field(default_factory=list)  # the same for frames; empty: to be made again
    sent: dict[int, int] = field(default_factory=dict)  # EV → packets


class PageModel:
    """Takes the records of a history in the order of time; `frame` returns the state."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._names = {host.address: host.name for host in fabric.hosts}
        self._qps: dict[str, dict[int, _Qp]] = {}  # host → number →
        self._sent: dict[str, _RecentSends] = {}
        self._loads: dict[str, list[float]] = {}  # as in the last frame
        self._arrived: dict[tuple[str, int], _Rate] = {}  # host, port → payload bytes that arrived
        self._down: dict[int, set[str]] = {}  # link → why
        self._faults: dict[str, str] = {}
        self._faulty: dict[str, list[str]] = {}  # fault → links
        self._events: list[dict[str, Any]] = []
        self._totals = dict.fromkeys(_LOSSES.values(), 0)
        self._ports: dict[str, dict[str, list[int]]] = {}  # switch → port → packets trimmed, marked
        self._dropped: dict[str, int] = {}  # switch → packets
        self._queue_losses: dict[str, _QueueLosses] = {}
        self._depths: dict[str, dict[str, int]] = {}
        self._dead: set[str] = set()
        self._verdicts: dict[str, str] = {}
        self._half_links = functools.cache(self._find_half_links)
        self._line = fabric.spec.link.rate_pps
        self._window = _WINDOW * fabric.spec.sample_interval
        self.run = ""
        """The name of the scenario that runs; empty where none does."""
        self.expectations: list[dict[str, str]] = []
        """Expectations of that scenario so far: state, expected, observed, when."""

    def layout(self) -> dict[str, Any]:
        """Return the constant part: planes, switches, hosts and cables with their ends.

        `line_rate` is one NIC port's, payload bytes/s; `base_rtt` the longest of an empty fabric, seconds; `bits`:
        whether rates are in bits, as in the run's report.
        """
        fabric = self._fabric
        planes = list(range(1, fabric.planes + 1))
        return {
            "planes": planes,
            "switches": [
                {"name": s.name, "tier": s.tier, "plane": s.plane, "usid": f"{s.usid:x}"} for s in fabric.switches
            ],
            "hosts": [
                {
                    "name": host.name,
                    "group": host.group,
                    "downlinks": [f"{usid(UsidType.DOWNLINK, plane, host.downlink):x}" for plane in planes],
                }
                for host in fabric.hosts
            ],
            "locator": text(LOCATOR << 96).removesuffix("::"),
            "links": [
                {
                    "name": link.name,
                    "plane": link.plane,
                    "ends": [end.node for end in link.ends],
                    "ports": [end.number for end in link.ends],
                }
                for link in fabric.links
            ],
            "payload": fabric.spec.path_mtu,
            "within": 2 * self._window,
            "line_rate": fabric.spec.path_mtu * self._line,
            "bits": fabric.spec.link.rate is not None,
            "base_rtt": fabric.spec.base_rtt(fabric.spec.longest),
        }

    def take(self, record: Record) -> None:
        """Apply a record."""
        kind = record.kind
        if kind == "sample":
            self._sample(record)
        elif kind in _LOSSES:
            self._totals[_LOSSES[kind]] += int(record.get("count", 1))
        elif kind == "switches":
            self._counters(record)
        elif kind == "depths":
            self._depths = {name: ports for name, ports in record["switches"].items() if ports}
        if kind in PHRASES and record.get("state") not in _CONNECTING:
            self._apply(record)
            common = {"t": record.t, "node": record.node, "kind": kind, "text": phrase(record, self._names)}
            row = {name: record[name] for name in _EVENT_FIELDS.get(kind, ()) if record.get(name) is not None}
            self._events.append({**common, **row})

    def frame(self, now: float) -> dict[str, Any]:
        """The state at `now`, and the events since the last frame. Loads are shares of full rate, rates bytes/s.

        `load` has the cables that carry anything, by number: from its first end, from its second. `ports` has the
        switch ports that ever trimmed or marked: packets of each. An unchanged part is the same object as in the
        last frame.
        """
        events, self._events = self._events, []
        sending = [qp for qps in self._qps.values() for qp in qps.values() if qp.evs and (qp.traffic or qp.sends)]
        return {
            "t": now,
            "load": self._load(now),
            "down": sorted(index for index, why in self._down.items() if why),
            "dead": sorted(self._dead),
            "faults": dict(self._faults),
            "faulty": sorted({link for links in self._faulty.values() for link in links}),
            "goodput": self._goodput(now),
            "qps": [[qp.host, qp.number, qp.peer, qp.traffic, qp.rtt, qp.window] for qp in sending],
            "evs": {f"{qp.host}/{qp.number}": _evs(qp) for qp in sending},
            "totals": self._sums(),
            "ports": self._ports,
            "depths": self._depths,
            "verdicts": dict(self._verdicts),
            "run": self.run,
            "expect": self.expectations,
            "events": events,
        }

    def _sums(self) -> dict[str, int]:
        row = [port for ports in self._ports.values() for port in ports.values()]
        trimmed, marked = (sum(port[n] for port in row) for n in (0, 1))
        return {**self._totals, "trimmed": trimmed, "marked": marked, "dropped": sum(self._dropped.values())}

    # --- samples ----------------------------------------------------------------------------------------------------

    def _sample(self, record: Record) -> None:
        host = record.node
        mine = self._qps.setdefault(host, {})
        alive = {row["qp"] for row in (*record["qps"], *record["paths"])}
        for number in [number for number, qp in mine.items() if qp.evs and number not in alive]:
            del mine[number]  # destroyed
        for row in record["qps"]:
            qp = self._qp(host, row["qp"])
            qp.rtt = row.get("rtt") or qp.rtt
            qp.window = row.get("cwnd", qp.window)
        counts: dict[int, int] = {}
        for row in record["paths"]:
            self._path(self._qp(host, row["qp"]), row, counts)
        self._sent.setdefault(host, _RecentSends()).add(record.t, counts)
        for row in record["ports"]:
            if "placed_bytes" in row:
                self._arrived.setdefault((host, row["port"]), _Rate()).add(record.t, row["placed_bytes"])

    def _path(self, qp: _Qp, row: dict[str, Any], counts: dict[int, int]) -> None:
        """Apply the sample of an EV; add the packets sent since the last one to every half-link of its path."""
        ev = row["ev"]
        if ev not in qp.evs:
            qp.evs[ev] = (row["plane"], row["uplink"], "GOOD")
            qp.rows = []
        sent = row.get("sent_packets")
        if sent is None:
            return
        grown, qp.sent[ev] = sent - qp.sent.get(ev, 0), sent
        qp.sends = qp.sends or sent > 0
        if grown <= 0 or not qp.peer:
            return
        for half_link in self._half_links(qp.host, qp.peer, *qp.evs[ev][:2]):
            counts[half_link] = counts.get(half_link, 0) + grown

    def _qp(self, host: str, number: int) -> _Qp:
        qps = self._qps.setdefault(host, {})
        if number not in qps:
            qps[number] = _Qp(host, number)
        return qps[number]

    def _counters(self, record: Record) -> None:
        ports, changed = dict(self._ports), False
        for name, row in record["switches"].items():
            drops = dict(row.get("drops", {}))
            queue = drops.pop("queue", 0) - sum(self._depths.get(name, {}).values())
            self._dropped[name] = sum(drops.values()) + self._queue_losses.setdefault(name, _QueueLosses()).add(queue)
            counted = {
                number: [int(port.get("trimmed", 0)), int(port.get("ecn_marked", 0))]
                for number, port in row.get("ports", {}).items()
                if port.get("trimmed") or port.get("ecn_marked")
            }
            if counted != ports.get(name, {}):
                ports[name], changed = counted, True
        if changed:
            self._ports = ports

    def _goodput(self, now: float) -> dict[str, float]:
        planes = {str(plane): 0.0 for plane in range(1, self._fabric.planes + 1)}
        for (_, port), rate in self._arrived.items():
            planes[str(port)] += rate.at(now, self._window)
        return {plane: round(value) for plane, value in planes.items()}

    def _load(self, now: float) -> dict[str, list[float]]:
        loads: dict[int, float] = {}
        for sent in self._sent.values():
            sent.into(loads, now, self._window, self._line)
        former, made = self._loads, {}
        for number in {half_link // 2 for half_link in loads}:
            pair = loads.get(2 * number, 0.0), loads.get(2 * number + 1, 0.0)
            name = str(number)
            before = former.get(name)
            if before and abs(pair[0] - before[0]) < _MIN_CHANGE and abs(pair[1] - before[1]) < _MIN_CHANGE:
                made[name] = before
            elif any(row := [round(share, 2) for share in pair]):
                made[name] = row
        self._loads = made
        return made

    def _find_half_links(self, source: str, destination: str, plane: int, uplink: int) -> tuple[int, ...]:
        """Return the half-links of a path."""
        at, half_links = source, list[int]()
        for link in self._known_links(source, destination, plane, uplink):
            upwards = link.b.node == destination or link.a.node == at
            half_links.append(2 * link.index + (0 if upwards else 1))
            at = link.b.node if upwards else link.a.node
        return tuple(half_links)

    def _known_links(self, source: str, destination: str, plane: int, uplink: int) -> Iterable[Link]:
        """The cables of a path; where the uplink is not known, as ECMP chooses it, those of the hosts alone."""
        try:
            return self._fabric.path_links(source, destination, plane, uplink)
        except UnknownName:
            ports = (self._fabric.host(name).port(plane).link for name in (source, destination))
            return [self._fabric.link(name) for name in ports]

    # --- events -----------------------------------------------------------------------------------------------------

    def _apply(self, record: Record) -> None:
        """Apply a record that is an event, if it changes the state."""
        match record.kind:
            case "traffic.start":
                self._traffic_began(record)
            case "qp.state":
                self._note_peer(record)
            case "ev.state":
                qp = self._qp(record.node, record["qp"])
                qp.evs[record["ev"]] = (record["plane"], record["uplink"], record["new"])
                qp.rows = []
            case "fault.begin":
                self._begin_fault(record)
            case "fault.end":
                self._end_fault(record["fault"])
            case "fault.edge":
                self._set_carrier(record["link"], record["fault"], up=record["up"])
            case "port.state":
                link = self._fabric.host(record.node).port(record["port"]).link
                self._set_carrier(link, "carrier", up=record["up"])
            case "switch.down":
                self._dead.add(record["switch"])
            case "switch.up" | "switch.ready":  # virtual time has no sessions that come up first
                self._dead.discard(record["switch"])
            case "verdict":
                self._verdicts[record["element"]] = record.get("state", "")
            case "verdict.over":
                self._verdicts.pop(record["element"], None)

    def _traffic_began(self, record: Record) -> None:
        for flow in record.get("flows", ()):
            for pair in flow.get("qps", ()):
                qp = self._qp(flow["source"], pair["source_qp"])
                qp.peer, qp.traffic = flow["destination"], record["traffic"]

    def _note_peer(self, record: Record) -> None:
        qp = self._qps.get(record.node, {}).get(record["qp"])
        if qp is not None:
            qp.peer = qp.peer or str(record.get("peer") or "")

    def _begin_fault(self, record: Record) -> None:
        name, links = record["fault"], record.get("links", [])
        self._faults[name] = record.get("text", "")
        self._faulty[name] = list(links)
        if FAULTS.get(record.get("fault_kind"), FaultBase).takes_carrier:
            for link in links:
                self._set_carrier(link, name, up=False)

    def _end_fault(self, name: str) -> None:
        self._faults.pop(name, None)
        self._faulty.pop(name, None)
        for why in self._down.values():
            why.discard(name)

    def _set_carrier(self, link: str, why: str, *, up: bool) -> None:
        reasons = self._down.setdefault(self._fabric.link(link).index, set())
        if up:
            reasons.discard(why)
        else:
            reasons.add(why)


def _evs(qp: _Qp) -> list[list[Any]]:
    if not qp.rows:
        qp.rows = [[ev, plane, uplink, state] for ev, (plane, uplink, state) in sorted(qp.evs.items())]
    return qp.rows
