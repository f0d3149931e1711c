"""What the page shows, from history records alone: fabric layout, and frames of its state over time.

The same code makes frames while a run goes on and when it is replayed: both show the same. Pure: no clock, no I/O.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mrclab.lab.history import Record
from mrclab.lab.ui.phrases import phrase
from mrclab.topo.model import Fabric

_WINDOW = 5  # sampling intervals over which rates are taken
_LONGEST_GAP = 100  # frames; where nothing was written for longer, time jumps
_TALK = frozenset({
    "fault.begin", "fault.end", "fault.edge", "faults.healed", "traffic.start", "traffic.end", "flow.failed",
    "ev.state", "port.state", "peer.ports", "qp.state", "switch.down", "switch.up", "switch.silent",
    "switch.answers", "link.failed", "verified", "lab.up", "process.died", "verdict", "verdict.over", "denied",
    "undenied", "drained", "undrained",
})  # fmt: skip
_PASSING = frozenset({"RESET", "INIT", "RTR"})  # states of a QP on its way
_LOSSES = {"packet.lost": "lost", "packet.retx": "sent again", "packet.spurious": "spurious"}


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
    told: list[list[Any]] = field(default_factory=list)  # the same for frames; empty: to be made again
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
        self._ports: dict[str, dict[str, list[int]]] = {}  # switch → port → packets trimmed, marked
        self._dropped: dict[str, int] = {}  # switch → packets
        self._depths: dict[str, dict[str, int]] = {}
        self._dead: set[str] = set()
        self._verdicts: dict[str, str] = {}
        self._path_ways: dict[tuple[str, str, int, int], tuple[int, ...]] = {}
        self._line = fabric.spec.link.rate_pps
        self._window = _WINDOW * fabric.spec.sample_interval
        self.run = ""
        """The name of the scenario that runs; empty where none does."""
        self.expectations: list[dict[str, str]] = []
        """How each expectation of it stands: state, wanted, saw, when."""

    def layout(self) -> dict[str, Any]:
        """What never changes: planes, switches, hosts and cables with their ends."""
        fabric = self._fabric
        return {
            "planes": list(range(1, fabric.planes + 1)),
            "switches": [{"name": s.name, "tier": s.tier, "plane": s.plane} for s in fabric.switches],
            "hosts": [{"name": host.name} for host in fabric.hosts],
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
        if kind in _TALK and record.get("state") not in _PASSING:
            handler = getattr(self, f"_on_{kind.replace('.', '_')}", None)
            if handler is not None:
                handler(record)
            self._events.append({"t": record.t, "node": record.node, "kind": kind, "text": phrase(record)})

    def frame(self, now: float) -> dict[str, Any]:
        """The state at `now`, and the events since the last frame. Loads are shares of full rate, rates bytes/s.

        `load` has the cables that carry anything: number, from its first end, from its second. `ports` has the switch
        ports that ever trimmed or marked: packets of each. What did not change is the same object as in the last frame.
        """
        events, self._events = self._events, []
        sending = [qp for qp in self._qps.values() if qp.evs and (qp.traffic or qp.sends)]
        return {
            "t": now,
            "load": self._loads(now),
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
        told = [port for ports in self._ports.values() for port in ports.values()]
        trimmed, marked = (sum(port[n] for port in told) for n in (0, 1))
        return {**self._totals, "trimmed": trimmed, "marked": marked, "dropped": sum(self._dropped.values())}

    # --- samples ----------------------------------------------------------------------------------------------------

    def _sample(self, record: Record) -> None:
        host = record.node
        self._forget(host, {told["qp"] for told in (*record["qps"], *record["paths"])})
        for told in record["qps"]:
            qp = self._qps.setdefault((host, told["qp"]), _Qp(host, told["qp"]))
            qp.rtt = told.get("rtt") or qp.rtt
            qp.window = told.get("cwnd", qp.window)
        for told in record["paths"]:
            qp = self._qps.setdefault((host, told["qp"]), _Qp(host, told["qp"]))
            ev = told["ev"]
            if ev not in qp.evs:
                qp.evs[ev] = (told["plane"], told["uplink"], "GOOD")
                qp.told = []
            if "sent_packets" in told:
                qp.sent.setdefault(ev, _Rate()).add(record.t, told["sent_packets"])
                qp.sends = qp.sends or told["sent_packets"] > 0
        for told in record["ports"]:
            if "placed_bytes" in told:
                self._placed.setdefault((host, told["port"]), _Rate()).add(record.t, told["placed_bytes"])

    def _forget(self, host: str, alive: set[int]) -> None:
        """QPs that a host has no more."""
        for key in [key for key, qp in self._qps.items() if key[0] == host and qp.evs and key[1] not in alive]:
            del self._qps[key]

    def _counters(self, record: Record) -> None:
        ports, changed = dict(self._ports), False
        for name, told in record["switches"].items():
            self._dropped[name] = sum(told.get("drops", {}).values())
            counted = {
                number: [int(port.get("trimmed", 0)), int(port.get("ecn_marked", 0))]
                for number, port in told.get("ports", {}).items()
                if port.get("trimmed") or port.get("ecn_marked")
            }
            if counted != ports.get(name, {}):
                ports[name], changed = counted, True
        if changed:
            self._ports = ports

    def _goodput(self, now: float) -> dict[str, float]:
        planes = {str(plane): 0.0 for plane in range(1, self._fabric.planes + 1)}
        for (_, port), rate in self._placed.items():
            planes[str(port)] += rate.at(now, self._window)
        return {plane: round(value) for plane, value in planes.items()}

    def _loads(self, now: float) -> list[list[float]]:
        loads: dict[int, float] = {}  # twice the cable's number, and one more from its second end
        for qp in self._qps.values():
            if not qp.peer:
                continue
            for ev, rate in qp.sent.items():
                share = rate.at(now, self._window) / self._line
                if share:
                    for way in self._ways(qp.host, qp.peer, *qp.evs[ev][:2]):
                        loads[way] = loads.get(way, 0.0) + share
        busy = sorted({way // 2 for way in loads})
        return [[n, round(loads.get(2 * n, 0.0), 2), round(loads.get(2 * n + 1, 0.0), 2)] for n in busy]

    def _ways(self, source: str, destination: str, plane: int, uplink: int) -> tuple[int, ...]:
        """The cables of a path, as `_loads` numbers them."""
        key = (source, destination, plane, uplink)
        if key not in self._path_ways:
            at, ways = source, []
            for link in self._fabric.path_links(*key):
                upwards = link.a.node == at
                ways.append(2 * link.index + (0 if upwards else 1))
                at = link.b.node if upwards else link.a.node
            self._path_ways[key] = tuple(ways)
        return self._path_ways[key]

    # --- events -----------------------------------------------------------------------------------------------------

    def _on_traffic_start(self, record: Record) -> None:
        for flow in record.get("flows", ()):
            for pair in flow.get("qps", ()):
                qp = self._qps.setdefault((flow["source"], pair["source_qp"]), _Qp(flow["source"], pair["source_qp"]))
                qp.peer, qp.traffic = flow["destination"], record["traffic"]

    def _on_qp_state(self, record: Record) -> None:
        qp = self._qps.get((record.node, record["qp"]))
        if qp is not None:
            qp.peer = qp.peer or str(record.get("peer") or "")

    def _on_ev_state(self, record: Record) -> None:
        qp = self._qps.setdefault((record.node, record["qp"]), _Qp(record.node, record["qp"]))
        qp.evs[record["ev"]] = (record["plane"], record["uplink"], record["new"])
        qp.told = []

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


class Reel:
    """Frames of a history as its records come: one at every multiple of `step` of its time, whoever reads it and when.

    `step` is seconds of the history's clock; what was true just before a frame's time stands in it.
    """

    def __init__(self, model: PageModel, step: float) -> None:
        self._model = model
        self._step = step
        self._due: float | None = None

    def take(self, record: Record) -> list[dict[str, Any]]:
        """One more record; the frames that were due before it."""
        if self._due is None:
            self._due = record.t + self._step
        made = self.until(record.t)
        self._model.take(record)
        return made

    def until(self, now: float) -> list[dict[str, Any]]:
        """The frames that are due at `now`."""
        made: list[dict[str, Any]] = []
        if self._due is None:
            return made
        if now - self._due > _LONGEST_GAP * self._step:
            made.append(self._model.frame(self._due))
            self._due += self._step * int((now - self._due) / self._step)
        while self._due <= now:
            made.append(self._model.frame(self._due))
            self._due += self._step
        return made


def frames(model: PageModel, records: Iterable[Record], step: float) -> list[dict[str, Any]]:
    """All frames of a history that is complete; the last one has its end."""
    reel, made, t = Reel(model, step), [], 0.0
    for record in records:
        made += reel.take(record)
        t = record.t
    made.append(model.frame(t))
    return made


def _evs(qp: _Qp) -> list[list[Any]]:
    if not qp.told:
        qp.told = [[ev, plane, uplink, state] for ev, (plane, uplink, state) in sorted(qp.evs.items())]
    return qp.told
