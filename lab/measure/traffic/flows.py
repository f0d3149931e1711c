"""Flows: sources, destinations and QPs, from the records `traffic.start`.

A workload of a scenario has one flow or many (a permutation, an incast); a flow goes from one host to another over one
or several QPs, and is named `TRAFFIC/h1>h3`.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from mrclab.lab.history import History, Record

QpKey = tuple[str, int]  # host, handle of the QP there


class MeasuredFlow(NamedTuple):
    """Bytes from one host to another. `size` is 0 where it is not known beforehand."""

    name: str
    traffic: str
    source: str
    destination: str
    size: int = 0
    senders: tuple[QpKey, ...] = ()
    receivers: tuple[QpKey, ...] = ()
    kind: str = ""
    begin: float = 0.0
    end: float = float("inf")

    def ran(self, begin: float, end: float) -> bool:
        """Return True if it ran at some time between two."""
        return self.begin < end and self.end > begin


def active(flows: Iterable[MeasuredFlow]) -> list[tuple[float, float]]:
    """Return the spans in which at least one of the flows ran, rising and apart."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted((flow.begin, flow.end) for flow in flows):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


class Selection(NamedTuple):
    """Flows of a figure: all, one workload, one flow; in all planes or in one."""

    traffic: str = ""
    flow: str = ""
    plane: int | None = None

    def __str__(self) -> str:
        what = self.flow or self.traffic
        plane = f"plane {self.plane}" if self.plane else ""
        return ", ".join(part for part in (what, plane) if part)


class MeasuredFlows:
    """All flows of a run, in the order in which they started."""

    def __init__(self, history: History) -> None:
        found: dict[str, MeasuredFlow] = {}
        ends = {record["flow"]: record.t for record in history.of("flow.end")}
        begins = {record["flow"]: record.t - float(record["seconds"]) for record in history.of("flow.end")}
        traffic_ends = {record["traffic"]: record.t for record in history.of("traffic.end")}
        for record in history.of("traffic.start"):
            for flow in _flows(record):
                end = ends.get(flow.name, traffic_ends.get(flow.traffic, float("inf")))
                begin = max(record.t, begins.get(flow.name, record.t))  # a trigger may have let it begin later
                found[flow.name] = flow._replace(begin=begin, end=end)
        self.all: tuple[MeasuredFlow, ...] = tuple(found.values())
        unknown = {record["traffic"] for record in history.of("traffic.start") if not record["flows"]}
        self.come_and_go = any(record["traffic"] in unknown for record in history.of("flow.end"))
        """True where flows of an open loop ran, which are known by their ends alone."""
        self._by_name: dict[str, list[MeasuredFlow]] = {}
        for each in self.all:
            for name in dict.fromkeys((each.name, f"{each.traffic}/{each.source}>{each.destination}")):
                self._by_name.setdefault(name, []).append(each)
        self.by_sender: dict[QpKey, MeasuredFlow] = {key: flow for flow in self.all for key in flow.senders}
        self.by_receiver: dict[QpKey, MeasuredFlow] = {key: flow for flow in self.all for key in flow.receivers}

    def __iter__(self) -> Iterator[MeasuredFlow]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def select(self, chosen: Selection) -> list[MeasuredFlow]:
        """Return the flows of a selection; KeyError where there are none."""
        if chosen.flow:
            found = list(self._by_name.get(chosen.flow, ()))
        else:
            found = [flow for flow in self.all if not chosen.traffic or flow.traffic == chosen.traffic]
        if not found:
            raise KeyError(chosen.flow or chosen.traffic or "any traffic")
        return found

    def of_sender(self, host: str, qp: int) -> MeasuredFlow | None:
        """The flow that a QP sends. Histories without QPs identify flows by their sending host."""
        flow = self.by_sender.get((host, qp))
        if flow or self.by_sender:
            return flow
        return next((flow for flow in self.all if flow.source == host), None)

    @property
    def sources(self) -> set[str]:
        """Hosts that send."""
        return {flow.source for flow in self.all}

    @cached_property
    def by_sink(self) -> dict[str, list[MeasuredFlow]]:
        """Flows by the host that receives them."""
        found: dict[str, list[MeasuredFlow]] = {}
        for flow in self.all:
            found.setdefault(flow.destination, []).append(flow)
        return found

    @property
    def sinks(self) -> set[str]:
        """Hosts that receive."""
        return set(self.by_sink)


def ends_of(flow: str) -> tuple[str, str]:
    """Return source and destination of a flow by its name, `NAME/h1>h3`; `#N` behind it tells several of them apart."""
    source, _, rest = flow.rpartition("/")[2].partition(">")
    return source, rest.partition("#")[0]


def _flows(record: Record) -> Iterator[MeasuredFlow]:
    for row in record["flows"]:  # none where flows come and go: each has its `flow.end`; and where nothing is sent
        source, destination = row["source"], row["destination"]
        senders = tuple((source, int(pair["source_qp"])) for pair in row["qps"])
        receivers = tuple((destination, int(pair["destination_qp"])) for pair in row["qps"])
        kind, size = record["traffic_kind"], int(row["size"])
        yield MeasuredFlow(row["flow"], record["traffic"], source, destination, size, senders, receivers, kind)
