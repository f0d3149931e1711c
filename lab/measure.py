"""What a run's history says in numbers: goodput, losses, EV transitions, path shares, drops, health.

Everything is computed from the merged history alone, so that a report can be made again from a result directory.
Times are seconds on the machine's monotonic clock; rates are payload bytes per second.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lab.history import History, Record
from lab.moments import Window
from lab.scenario import Scenario
from lab.series import Counter, total
from topo import srv6
from topo.model import Fabric

Path = tuple[int, int]  # plane, uplink; uplink 0 inside a T0 group


@dataclass(frozen=True)
class Loss:
    """A packet that its sender declared lost at `t`, last sent at `sent` over `path`."""

    t: float
    host: str
    qp: int
    psn: int
    path: Path
    reason: str
    sent: float


@dataclass(frozen=True)
class EvChange:
    """An EV of a QP that changed its state."""

    t: float
    host: str
    qp: int
    ev: int
    path: Path
    old: str
    new: str
    reason: str


@dataclass(frozen=True)
class Process:
    """One process of the lab over the run: its CPU share (1 = one core) on average and at its worst."""

    name: str
    mean: float
    peak: float


class Measures:
    """Numbers of one run. `times` names its moments: start, end, each fault and each `fault.end`."""

    def __init__(self, history: History, scenario: Scenario, fabric: Fabric) -> None:
        self.history = history
        self.scenario = scenario
        self.fabric = fabric
        self.times: Mapping[str, float] = dict(self._moments())
        first = scenario.traffic[0]
        self.rtt = fabric.base_rtt(first.source, first.destination)

    def _moments(self) -> dict[str, float]:
        times: dict[str, float] = {}
        for record in self.history.of("traffic.start", "traffic.end", "fault.begin", "fault.end"):
            if record.kind == "traffic.start":
                times.setdefault("start", record.t)
            elif record.kind == "traffic.end":
                times["end"] = record.t
            else:
                times[record["fault"] + (".end" if record.kind == "fault.end" else "")] = record.t
        return times

    @property
    def start(self) -> float:
        """When the first traffic began; the beginning of the history where none did."""
        return self.times.get("start", self.history.records[0].t if self.history.records else 0.0)

    @property
    def end(self) -> float:
        """When the last traffic ended; the end of the history where it never did."""
        return self.times.get("end", self.history.records[-1].t if self.history.records else 0.0)

    def since_start(self, t: float) -> float:
        """Seconds since the traffic began."""
        return t - self.start

    # --- goodput ----------------------------------------------------------------------------------------------------

    @cached_property
    def line_rate(self) -> float:
        """Payload rate of all NIC ports that can be in use at once, bytes per second."""
        sources = {entry.source for entry in self.scenario.traffic}
        sinks = {entry.destination for entry in self.scenario.traffic}
        spec = self.fabric.spec
        return float(min(len(sources), len(sinks)) * spec.planes * spec.link.rate_pps * spec.path_mtu)

    @cached_property
    def placed(self) -> dict[int, list[Counter]]:
        """New payload bytes that receivers put into memory, by plane."""
        counters: dict[tuple[str, int], Counter] = defaultdict(Counter)
        sinks = {entry.destination for entry in self.scenario.traffic}
        for sample in self.history.of("sample"):
            if sample.node in sinks:
                for port in sample.get("ports", []):
                    counters[sample.node, port["port"]].add(sample.t, port["placed_bytes"])
        by_plane: dict[int, list[Counter]] = {plane: [] for plane in range(1, self.fabric.planes + 1)}
        for (_, plane), counter in sorted(counters.items()):
            by_plane[plane].append(counter)
        return by_plane

    def goodput(self, begin: float, end: float, plane: int | None = None) -> float:
        """Payload bytes per second that arrived between two times, in all planes or in one."""
        planes = self.placed if plane is None else [plane]
        return sum(total(self.placed[number], begin, end) for number in planes)

    def goodput_in(self, window: Window) -> float:
        """The same over a window; KeyError when the window has not come to pass."""
        return self.goodput(*window.at(self.times, self.rtt))

    def stalls(self, begin: float, end: float) -> list[tuple[float, float]]:
        """(time, length) of the longest pause of each sampling interval of a receiver, longest first."""
        found = []
        sinks = {entry.destination for entry in self.scenario.traffic}
        for sample in self.history.of("sample"):
            if sample.node in sinks and begin <= sample.t <= end:
                found += [(sample.t, float(qp["max_gap"])) for qp in sample.get("qps", []) if qp.get("max_gap")]
        return sorted(found, key=lambda stall: -stall[1])

    # --- paths, losses, EVs -----------------------------------------------------------------------------------------

    @cached_property
    def losses(self) -> list[Loss]:
        """Every packet that was declared lost."""
        return [
            Loss(r.t, r.node, r["qp"], r["psn"], ev_path(r["ev"]), r.get("reason", ""), r.get("sent", r.t))
            for r in self.history.of("packet.lost")
        ]

    @property
    def not_retransmitted(self) -> list[Loss]:
        """Losses after which the packet was neither sent again nor found to have arrived in the meantime."""
        last: dict[tuple[str, int, int], float] = {}
        for record in self.history.of("packet.retx", "packet.late"):
            last[record.node, record["qp"], record["psn"]] = record.t
        return [loss for loss in self.losses if last.get((loss.host, loss.qp, loss.psn), -1.0) < loss.t]

    @cached_property
    def ev_changes(self) -> list[EvChange]:
        """Every change of an EV's state, in order."""
        return [
            EvChange(
                r.t, r.node, r["qp"], r["ev"], ev_path(r["ev"]), r.get("old", ""), r.get("new", ""), r.get("reason", "")
            )
            for r in self.history.of("ev.state")
        ]

    @cached_property
    def path_packets(self) -> dict[Path, int]:
        """Data packets sent over each path, by all senders of the scenario."""
        sources = {entry.source for entry in self.scenario.traffic}
        last: dict[tuple[str, int, int], tuple[Path, int]] = {}
        for sample in self.history.of("sample"):
            for row in sample.get("paths", []) if sample.node in sources else []:
                last[sample.node, row["qp"], row["ev"]] = (row["plane"], row["uplink"]), row["sent_packets"]
        packets: dict[Path, int] = defaultdict(int)
        for path, count in last.values():
            packets[path] += count
        return dict(sorted(packets.items()))

    def crosses(self, path: Path, link: str) -> bool:
        """Whether a path of one of the scenario's traffics leads over a cable."""
        for entry in self.scenario.traffic:
            if path in self.fabric.paths(entry.source, entry.destination):
                links = self.fabric.path_links(entry.source, entry.destination, *path)
                if any(cable.name == link for cable in links):
                    return True
        return False

    def losses_of(self, fault: str) -> list[Loss]:
        """Losses on paths over a fault's cable, from when it struck until it was healed."""
        entry = next(f for f in self.scenario.faults if f.name == fault)
        begin, end = self.times[fault], self.times.get(f"{fault}.end", self.end)
        return [x for x in self.losses if begin <= x.t and x.sent <= end and self.crosses(x.path, entry.link)]

    # --- errors and health ------------------------------------------------------------------------------------------

    @cached_property
    def qp_errors(self) -> list[Record]:
        """QPs that went to ERROR."""
        return [record for record in self.history.of("qp.state") if record.get("state") == "ERROR"]

    @cached_property
    def drops(self) -> dict[str, dict[str, int]]:
        """Packets dropped by switches during the run: reason → switch → packets."""
        readings = [record["switches"] for record in self.history.of("counters")]
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for switch, state in (readings[-1] if readings else {}).items():
            before = readings[0].get(switch, {}).get("drops", {}) if len(readings) > 1 else {}
            for reason, count in state.get("drops", {}).items():
                found[reason][switch] = int(count) - int(before.get(reason, 0))
        return dict(sorted(found.items()))

    @cached_property
    def died(self) -> list[str]:
        """Processes that ended before they were told to."""
        return [f"{r['process']} ({r.get('reason', 'ended')})" for r in self.history.of("process.died")]

    @cached_property
    def processes(self) -> list[Process]:
        """CPU share of every process between start and end of the traffic, busiest first."""
        counters: dict[str, Counter] = defaultdict(Counter)
        for record in self.history.of("cpu"):
            for name, seconds in record["seconds"].items():
                counters[name].add(record.t, seconds)
        found = []
        for name, counter in counters.items():
            times = [t for t in counter.times if self.start <= t <= self.end]
            steps = [counter.rate(a, b) for a, b in itertools.pairwise(times)]
            found.append(Process(name, counter.rate(self.start, self.end), max(steps, default=0.0)))
        return sorted(found, key=lambda process: -process.mean)

    @cached_property
    def socket_drops(self) -> dict[str, int]:
        """Frames that the kernel dropped before a host read them, by NIC port."""
        found: dict[str, int] = {}
        for sample in self.history.of("sample"):
            for port in sample.get("ports", []):
                name = f"{sample.node}-p{port['port']}"
                found[name] = max(found.get(name, 0), int(port.get("socket_drops", 0)))
        return {port: count for port, count in found.items() if count}

    @cached_property
    def worst_lateness(self) -> tuple[float, str, float]:
        """(seconds, host, time): the longest that a NIC of a host in use woke up late while the traffic ran."""
        hosts = {name for entry in self.scenario.traffic for name in (entry.source, entry.destination)}
        found = [
            (max(float(sample.get("late", 0)), float(sample.get("receive_late", 0))), sample.node, sample.t)
            for sample in self.history.of("sample")
            if sample.node in hosts and self.start <= sample.t <= self.end
        ]
        return max(found, default=(0.0, "", self.start))


def ev_path(ev: int) -> Path:
    """Plane and uplink of an EV."""
    fields = srv6.ev_fields(ev)
    return fields.plane, fields.uplink
