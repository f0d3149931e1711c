"""What the page shows, from history records alone: fabric layout, and frames of its state over time.

The same code makes frames while a run goes on and when it is replayed: both show the same. Pure: no clock, no I/O.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mrclab.lab.history import Record
from mrclab.topo.model import Fabric, Link

FRAME_SECONDS = 0.1  # between two frames of a run in real time
_WINDOW = 0.5  # seconds over which rates are taken; samples come ten times a second
_TALK = frozenset({
    "fault.begin", "fault.end", "fault.edge", "faults.healed", "traffic.start", "traffic.end", "flow.failed",
    "ev.state", "port.state", "peer.ports", "qp.state", "switch.down", "switch.up", "switch.silent",
    "switch.answers", "link.failed", "verified", "lab.up", "process.died", "verdict", "verdict.over", "denied",
    "undenied", "drained", "undrained",
})  # fmt: skip
_LOSSES = {"packet.lost": "lost", "packet.retx": "sent again", "packet.spurious": "spurious"}


class _Rate:
    """A cumulative count, read as change per second over the last samples."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()

    def add(self, t: float, value: float) -> None:
        self._points.append((t, value))

    def at(self, now: float, window: float) -> float:
        points = self._points
        while len(points) > 2 and points[1][0] <= now - window:
            points.popleft()
        if len(points) < 2 or points[-1][0] <= now - 2 * window:
            return 0.0
        (t0, first), (t1, last) = points[0], points[-1]
        return max(0.0, (last - first) / (t1 - t0)) if t1 > t0 else 0.0


@dataclass
class _Qp:
    """A sending QP as its host samples it."""

    host: str
    number: int
    peer: str = ""
    traffic: str = ""
    rtt: float = 0.0
    window: float = 0.0
    evs: dict[int, tuple[int, int, str]] = field(default_factory=dict)  # EV → plane, uplink, state
    sent: dict[int, _Rate] = field(default_factory=dict)  # EV → packets sent


class PageModel:
    """Takes the records of a history in the order of time; `frame` says how everything stands."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._qps: dict[tuple[str, int], _Qp] = {}
        self._placed: dict[tuple[str, int], _Rate] = {}  # host, port → payload bytes that arrived
        self._down: dict[int, set[str]] = {}  # link → why
        self._faults: dict[str, str] = {}
        self._faulty: dict[str, list[str]] = {}  # fault → links
        self._events: list[dict[str, Any]] = []
        self._totals = dict.fromkeys(_LOSSES.values(), 0)
        self._switches: dict[str, dict[str, int]] = {}
        self._depths: dict[str, dict[str, int]] = {}
        self._dead: set[str] = set()
        self._verdicts: dict[str, str] = {}
        self._path_links: dict[tuple[str, str, int, int], tuple[Link, ...]] = {}
        self._line = fabric.spec.link.rate_pps

    def layout(self) -> dict[str, Any]:
        """What never changes: planes, switches, hosts and cables with their ends."""
        fabric = self._fabric
        return {
            "planes": list(range(1, fabric.planes + 1)),
            "switches": [{"name": s.name, "tier": s.tier, "plane": s.plane} for s in fabric.switches],
            "hosts": [{"name": host.name} for host in fabric.hosts],
            "links": [
                {"name": link.name, "plane": link.plane, "ends": [e.node for e in link.ends]} for link in fabric.links
            ],
            "payload": fabric.spec.path_mtu,
            "line_rate": fabric.spec.path_mtu * self._line,
        }

    def take(self, record: Record) -> None:
        """One more record."""
        kind = record.kind
        if kind == "sample":
            self._sample(record)
        elif kind in _LOSSES:
            self._totals[_LOSSES[kind]] += int(record.get("count", 1))
        elif kind == "switches":
            self._counters(record)
        elif kind == "depths":
            self._depths = {name: ports for name, ports in record["switches"].items() if ports}
        if kind in _TALK:
            handler = getattr(self, f"_on_{kind.replace('.', '_')}", None)
            if handler is not None:
                handler(record)
            self._events.append({"t": record.t, "node": record.node, "kind": kind, "text": _phrase(record)})

    def frame(self, now: float, window: float = _WINDOW) -> dict[str, Any]:
        """The state at `now`, and the events since the last frame. Loads are shares of full rate, rates bytes/s."""
        events, self._events = self._events, []
        loads = self._loads(now, window)
        return {
            "t": now,
            "load": [[round(up, 3), round(down, 3)] for up, down in loads],
            "down": sorted(index for index, why in self._down.items() if why),
            "dead": sorted(self._dead),
            "faults": dict(self._faults),
            "faulty": sorted({link for links in self._faulty.values() for link in links}),
            "goodput": self._goodput(now, window),
            "qps": [self._qp(qp) for qp in self._qps.values() if qp.evs],
            "totals": dict(self._totals),
            "switches": self._switches,
            "depths": self._depths,
            "verdicts": dict(self._verdicts),
            "events": events,
        }

    # --- samples ----------------------------------------------------------------------------------------------------

    def _sample(self, record: Record) -> None:
        host = record.node
        for told in record["qps"]:
            qp = self._qps.setdefault((host, told["qp"]), _Qp(host, told["qp"]))
            qp.rtt = told.get("rtt") or qp.rtt
            qp.window = told.get("cwnd", qp.window)
        for told in record["paths"]:
            qp = self._qps.setdefault((host, told["qp"]), _Qp(host, told["qp"]))
            ev = told["ev"]
            if ev not in qp.evs:
                qp.evs[ev] = (told["plane"], told["uplink"], "GOOD")
            if "sent_packets" in told:
                qp.sent.setdefault(ev, _Rate()).add(record.t, told["sent_packets"])
        for told in record["ports"]:
            if "placed_bytes" in told:
                self._placed.setdefault((host, told["port"]), _Rate()).add(record.t, told["placed_bytes"])

    def _counters(self, record: Record) -> None:
        for name, told in record["switches"].items():
            self._switches[name] = {
                "trimmed": told.get("trimmed", 0),
                "marked": told.get("ecn_marked", 0),
                "dropped": sum(told.get("drops", {}).values()),
            }

    def _goodput(self, now: float, window: float) -> dict[str, float]:
        planes = {str(plane): 0.0 for plane in range(1, self._fabric.planes + 1)}
        for (_, port), rate in self._placed.items():
            planes[str(port)] += rate.at(now, window)
        return {plane: round(value) for plane, value in planes.items()}

    def _loads(self, now: float, window: float) -> list[list[float]]:
        loads = [[0.0, 0.0] for _ in self._fabric.links]
        for qp in self._qps.values():
            if not qp.peer:
                continue
            for ev, rate in qp.sent.items():
                share = rate.at(now, window) / self._line
                plane, uplink, _ = qp.evs[ev]
                if share:
                    at = qp.host
                    for link in self._links_of(qp.host, qp.peer, plane, uplink):
                        upwards = link.a.node == at
                        loads[link.index][0 if upwards else 1] += share
                        at = link.b.node if upwards else link.a.node
        return loads

    def _links_of(self, source: str, destination: str, plane: int, uplink: int) -> tuple[Link, ...]:
        key = (source, destination, plane, uplink)
        if key not in self._path_links:
            self._path_links[key] = self._fabric.path_links(*key)
        return self._path_links[key]

    @staticmethod
    def _qp(qp: _Qp) -> dict[str, Any]:
        return {
            "host": qp.host,
            "qp": qp.number,
            "peer": qp.peer,
            "traffic": qp.traffic,
            "rtt": qp.rtt,
            "window": qp.window,
            "evs": [[ev, plane, uplink, state] for ev, (plane, uplink, state) in sorted(qp.evs.items())],
        }

    # --- events -----------------------------------------------------------------------------------------------------

    def _on_traffic_start(self, record: Record) -> None:
        for flow in record.get("flows", ()):
            for pair in flow.get("qps", ()):
                qp = self._qps.setdefault((flow["source"], pair["source_qp"]), _Qp(flow["source"], pair["source_qp"]))
                qp.peer, qp.traffic = flow["destination"], record["traffic"]

    def _on_ev_state(self, record: Record) -> None:
        qp = self._qps.setdefault((record.node, record["qp"]), _Qp(record.node, record["qp"]))
        qp.evs[record["ev"]] = (record["plane"], record["uplink"], record["new"])

    def _on_fault_begin(self, record: Record) -> None:
        name, links = record["fault"], record.get("links", [])
        self._faults[name] = record.get("text", "")
        self._faulty[name] = list(links)
        if record.get("fault_kind") in {"link_down", "port_down"}:
            self._take_down(links, name)

    def _on_fault_end(self, record: Record) -> None:
        name = record["fault"]
        self._faults.pop(name, None)
        self._faulty.pop(name, None)
        for why in self._down.values():
            why.discard(name)

    def _on_fault_edge(self, record: Record) -> None:
        if record["up"]:
            self._down.get(self._fabric.link(record["link"]).index, set()).discard(record["fault"])
        else:
            self._take_down([record["link"]], record["fault"])

    def _take_down(self, links: Iterable[str], why: str) -> None:
        for name in links:
            self._down.setdefault(self._fabric.link(name).index, set()).add(why)

    def _on_port_state(self, record: Record) -> None:
        link = self._fabric.host(record.node).port(record["port"]).link
        index = self._fabric.link(link).index
        if record["up"]:
            self._down.get(index, set()).discard("carrier")
        else:
            self._take_down([link], "carrier")

    def _on_switch_down(self, record: Record) -> None:
        self._dead.add(record["switch"])

    def _on_switch_up(self, record: Record) -> None:
        self._dead.discard(record["switch"])

    def _on_verdict(self, record: Record) -> None:
        self._verdicts[record["element"]] = record.get("state", "")

    def _on_verdict_over(self, record: Record) -> None:
        self._verdicts.pop(record["element"], None)


def frames(fabric: Fabric, records: Iterable[Record], step: float = FRAME_SECONDS) -> list[dict[str, Any]]:
    """All frames of a history that is complete, one every `step` seconds of its time."""
    model, made = PageModel(fabric), []
    due: float | None = None
    t = 0.0
    for record in records:
        t = record.t
        due = t + step if due is None else due
        while t >= due:
            made.append(model.frame(due, 5 * step))
            due += step
        model.take(record)
    made.append(model.frame(t, 5 * step))
    return made


def _phrase(record: Record) -> str:
    """One line for the event log."""
    shape = _PHRASES.get(record.kind)
    if shape is not None:
        return shape.format_map(_Fields(record.data)).rstrip()
    told = (f" {name}={value}" for name, value in record.data.items() if not isinstance(value, (dict, list)))
    return record.kind + "".join(told)


class _Fields(dict[str, Any]):
    """Fields of a record; one that is not there is empty."""

    def __missing__(self, name: str) -> str:
        return ""


_PHRASES = {
    "fault.begin": "{fault} strikes: {text}",
    "fault.end": "{fault} healed",
    "fault.edge": "{link} changes ({fault})",
    "traffic.start": "{traffic} starts",
    "traffic.end": "{traffic} ends",
    "ev.state": "EV plane {plane} uplink {uplink}: {old} → {new} ({reason})",
    "peer.ports": "{peer} has ports {mask:b} up",
    "qp.state": "QP {qp} {state} {reason}",
    "switch.up": "{switch} connected",
    "switch.down": "{switch} lost",
}
