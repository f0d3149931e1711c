"""Counters of the switches: drops by reason, and per port queue depth, trims and ECN marks over time.

Sources: `counters` records at both ends of a run, the controller's `switches` records about once a second, and the
lab's `depths` records four times a second.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from mrclab.lab.history import History
from mrclab.lab.measure.fabric.faults import links_of
from mrclab.lab.measure.series import CountSeries, Gauge
from mrclab.topo.model import Fabric

Port = tuple[str, int]  # switch, port number


def _counter(name: str) -> "cached_property[dict[Port, CountSeries]]":
    """Return a property: a counter of ports over time, by its name in readings."""

    def read(switches: "Switches") -> dict[Port, CountSeries]:
        return switches.port_counter(name)

    return cached_property(read)


class Switches:
    """The switches' counters of one run."""

    def __init__(self, history: History) -> None:
        self._history = history

    @cached_property
    def drops(self) -> dict[str, dict[str, int]]:
        """Packets dropped by switches during the run: reason → switch → packets."""
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for (reason, switch), counter in self._drops.items():
            found[reason][switch] = round(counter.values[-1] - counter.values[0])
        return dict(sorted(found.items()))

    @cached_property
    def drops_over_time(self) -> dict[str, CountSeries]:
        """Reason → count over time of all switches together."""
        found: dict[str, list[CountSeries]] = defaultdict(list)
        for (reason, _), counter in self._drops.items():
            found[reason].append(counter)
        return {reason: _sum(counters) for reason, counters in sorted(found.items())}

    @cached_property
    def _drops(self) -> dict[tuple[str, str], CountSeries]:
        """(reason, switch) → count over time; a restarted switch counts from zero, which CountSeries adds on."""
        counts: dict[tuple[str, str], list[tuple[float, float, int]]] = defaultdict(list)
        restarts: dict[str, tuple[int, int]] = {}  # switch → number of its restarts, packets received so far in it
        for t, switch, reading in self._readings("counters", "switches"):
            number, before = restarts.get(switch, (0, 0))
            received = _received(reading)
            restarts[switch] = (number + (received < before), received)
            for reason, count in reading.get("drops", {}).items():
                counts[reason, switch].append((t, float(count), restarts[switch][0]))
        return {key: _without_queued(readings) for key, readings in counts.items()}

    trims = _counter("trimmed")
    """Packets trimmed, by port."""

    marks = _counter("ecn_marked")
    """Packets that got an ECN mark, by port."""

    xoffs = _counter("pfc_xoffs")
    """Pauses that a port sent to its peer; with PFC."""

    paused = _counter("pfc_paused")
    """Nanoseconds that a port's data was paused by its peer."""

    @cached_property
    def depth(self) -> dict[Port, Gauge]:
        """Packets in the data queue, by port, of ports that ever held any; no sample while a switch did not answer."""
        readings = list(self._history.of("depths"))
        busy = {(switch, port) for r in readings for switch, ports in r["switches"].items() for port in ports}
        found: dict[Port, Gauge] = {(switch, int(port)): Gauge() for switch, port in sorted(busy)}
        for r in readings:
            reading, silent = r["switches"], set(r["silent"])
            for (switch, port), gauge in found.items():
                if switch not in silent:
                    gauge.add(r.t, float(reading.get(switch, {}).get(str(port), 0)))
        return found

    def has_depths(self, switches: Collection[str], begin: float, end: float) -> bool:
        """Return True if any of these switches reported its queue depths between two times."""
        return any(begin <= r.t <= end and set(switches) - set(r["silent"]) for r in self._history.of("depths"))

    def port_counter(self, name: str) -> dict[Port, CountSeries]:
        """Return a count over time by port. A reading leaves out ports without change: their last value holds."""
        found: dict[Port, CountSeries] = {}
        read: dict[str, float] = {}  # switch → time of its last reading
        for t, switch, reading in self._readings("counters", "switches"):
            if "ports" not in reading:
                continue
            before, read[switch] = read.get(switch, t), t
            for port, row in reading["ports"].items():
                counter = found.setdefault((switch, int(port)), CountSeries())
                if before < t and (not counter.times or counter.times[-1] < before):
                    counter.hold(before)
                if name in row:
                    counter.add(t, float(row[name]))
                elif not counter.times or counter.times[-1] < t:
                    counter.hold(t)
        return dict(sorted(found.items()))

    def _readings(self, *kinds: str) -> Iterator[tuple[float, str, Mapping[str, Any]]]:
        for record in self._history.of(*kinds):
            for switch, reading in record["switches"].items():
                yield record.t, switch, reading


def ports_of(element: str | None, fabric: Fabric) -> set[Port]:
    """The switch ports at the ends of an element's cables, all without one; KeyError where there is no such element."""
    links = None if element is None else set(links_of(element, fabric))
    return {(s.name, port.number) for s in fabric.switches for port in s.ports if links is None or port.link in links}


def link_at(fabric: Fabric, switch: str, port: int) -> str:
    """Return the cable at a switch's port; empty at the controller's, and where there is none."""
    ports = fabric.switch(switch).ports if fabric.has_switch(switch) else ()
    return ports[port - 1].link if 0 < port <= len(ports) else ""


def growth(counters: Iterable[CountSeries]) -> int:
    """Return the growth of counters over the run, together."""
    return round(sum(counter.values[-1] - counter.values[0] for counter in counters if counter.values))


def _sum(counters: list[CountSeries]) -> CountSeries:
    times = sorted({t for counter in counters for t in counter.times})
    return CountSeries(times, [sum(counter.at(t) for counter in counters) for t in times])


def _received(reading: Mapping[str, Any]) -> int:
    """Packets a switch has received since its program was loaded."""
    if "rx_packets" in reading:
        return int(reading["rx_packets"])
    return sum(int(port.get("rx_packets", 0)) for port in (reading.get("ports") or {}).values())


def _without_queued(readings: list[tuple[float, float, int]]) -> CountSeries:
    """A count of drops without the packets that only waited in a queue when it was read."""
    values = [count for _, count, _ in readings]
    for n in range(len(values) - 2, -1, -1):
        if readings[n][2] == readings[n + 1][2]:
            values[n] = min(values[n], values[n + 1])
    counter = CountSeries()
    for (t, _, _), value in zip(readings, values, strict=True):
        counter.add(t, value)
    return counter
