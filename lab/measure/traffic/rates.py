"""Goodput: payload bytes that arrived per second, of everything, one workload, one flow, one plane or one path."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from mrclab.lab.measure.samples import Samples
from mrclab.lab.measure.series import CountSeries, binned_total, total
from mrclab.lab.measure.traffic.flows import MeasuredFlow, MeasuredFlows, Selection, active
from mrclab.topo.model import Fabric

Path = tuple[int, int]  # plane, uplink; uplink 0 inside a T0 group

EVERYTHING = Selection()


class Rates:
    """Goodput of one run. Rates are payload bytes per second."""

    def __init__(self, fabric: Fabric, flows: MeasuredFlows, samples: Samples) -> None:
        self._fabric = fabric
        self._flows = flows
        self._samples = samples
        self._chosen: dict[Selection, list[CountSeries]] = {}

    def line(self, chosen: Selection = EVERYTHING, within: tuple[float, float] | None = None) -> float:
        """Payload rate of all NIC ports that the chosen flows can use at once, of those that ran in a window; or 0."""
        if chosen.flow:
            flows = self._flows.select(chosen)
        else:
            flows = [flow for flow in self._flows if not chosen.traffic or flow.traffic == chosen.traffic]
        if within:
            flows = [flow for flow in flows if flow.ran(*within)]
        spec = self._fabric.spec
        pairs = min(len({flow.source for flow in flows}), len({flow.destination for flow in flows}))
        packets = spec.port_pps(chosen.plane) if chosen.plane else spec.line_pps
        return float(pairs * packets * spec.path_mtu)

    @cached_property
    def by_plane(self) -> dict[int, list[CountSeries]]:
        """New payload bytes that receivers put into memory, by plane."""
        found: dict[int, list[CountSeries]] = {plane: [] for plane in range(1, self._fabric.planes + 1)}
        spans = {host: active(flows) for host, flows in self._flows.by_sink.items()}
        for (host, plane), counter in sorted(self._samples.placed.items()):
            if host in spans:
                known = not self._flows.come_and_go
                found.setdefault(plane, []).append(counter.during(spans[host]) if known else counter)
        return found

    @cached_property
    def by_path(self) -> dict[Path, list[CountSeries]]:
        """Acknowledged packets by path, of all sending QPs."""
        found: dict[Path, list[CountSeries]] = defaultdict(list)
        for (host, qp, _), series in self._samples.paths.items():
            if series.count("acked_packets").times and self._flows.of_sender(host, qp):
                found[series.path].append(series.count("acked_packets"))
        return dict(sorted(found.items()))

    def counters(self, chosen: Selection = EVERYTHING) -> list[CountSeries]:
        """Counts of payload bytes whose sum is the selection; KeyError where no such traffic ran.

        One flow in one plane is counted by the sender's acknowledgements, all others where the bytes arrived.
        """
        if chosen not in self._chosen:
            self._chosen[chosen] = self._counters(chosen)
        return self._chosen[chosen]

    def _counters(self, chosen: Selection) -> list[CountSeries]:
        if not chosen.flow and not chosen.traffic:
            planes = self.by_plane if chosen.plane is None else [chosen.plane]
            ports = [counter for plane in planes for counter in self.by_plane.get(plane, [])]
            if any(counter.values and counter.values[-1] for counter in ports) or chosen.plane:
                return ports
            return [counter for flow in self._flows for counter in self._arrived(flow)]
        flows = self._flows.select(chosen)
        if chosen.plane is None:
            return [counter for flow in flows for counter in self._arrived(flow)]
        return [counter for flow in flows for counter in self._acknowledged(flow, chosen.plane)]

    def _arrived(self, flow: MeasuredFlow) -> list[CountSeries]:
        if not flow.receivers:
            return [c for (host, _), c in sorted(self._samples.placed.items()) if host == flow.destination]
        return [self._samples.qps[key].count("placed_bytes").during(active([flow])) for key in flow.receivers]

    def _acknowledged(self, flow: MeasuredFlow, plane: int) -> list[CountSeries]:
        senders, size = set(flow.senders), self._fabric.spec.path_mtu
        found = []
        for (host, qp, _), series in self._samples.paths.items():
            if series.path[0] == plane and ((host, qp) in senders or (not senders and host == flow.source)):
                packets = series.count("acked_packets")
                acked = CountSeries(packets.times, [value * size for value in packets.values])
                found.append(acked.during(active([flow])) if senders else acked)
        return found

    def goodput(self, begin: float, end: float, chosen: Selection = EVERYTHING) -> float:
        """Payload bytes per second between two times; KeyError where no such traffic ran."""
        return total(self.counters(chosen), begin, end)

    def binned(self, at: Sequence[float], chosen: Selection = EVERYTHING) -> list[float]:
        """Return the bytes between each pair of neighbouring times."""
        return binned_total(self.counters(chosen), at)
