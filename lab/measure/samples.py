"""The hosts' samples, read once: counts and gauges of every QP, path and NIC port over time.

A sample may omit rows of QPs and paths without change since the one before, and zero counts; omitted values are
unchanged.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from mrclab.lab.history import History, Record
from mrclab.lab.measure.series import CountSeries, Gauge

QP_COUNTS = frozenset(
    ("placed_bytes", "acked_bytes", "sent_packets", "retx_packets", "lost_packets", "ecn_packets", "trimmed_packets")
)
QP_GAUGES = frozenset(("cwnd", "inflight", "rtt", "rate"))
PATH_COUNTS = ("sent_packets", "acked_packets", "lost_packets", "marked_packets")

_Row = tuple[float, float, tuple[Any, ...], str]
"""Row of an EV: the time, that of the sample before, the counts reported, and the state."""


class Late(NamedTuple):
    """One delay of a process: seconds, process, and the time of its end."""

    seconds: float
    process: str
    at: float

    @property
    def since(self) -> float:
        """Time of its begin."""
        return self.at - self.seconds


class QpSeries:
    """One QP of one host."""

    __slots__ = ("counts", "gaps", "gauges")

    def __init__(self) -> None:
        self.counts: dict[str, CountSeries] = {}
        self.gauges: dict[str, Gauge] = {}
        self.gaps: list[tuple[float, float]] = []  # (time, longest pause since the sample before), where there was one

    def count(self, name: str) -> CountSeries:
        """A count over time; an empty one where the QP never had it."""
        return self.counts.get(name, _ZERO)

    def read(self, t: float, before: float, row: dict[str, Any]) -> None:
        """Take a row of a sample; `before` is the time of the host's sample before this one."""
        for name, value in row.items():
            if name in QP_COUNTS:
                if value:
                    _grow(self.counts, name, t, before, value)
            elif name in QP_GAUGES:
                if value:
                    self.gauges.setdefault(name, Gauge()).add(t, value)
            elif name == "max_gap" and value:
                self.gaps.append((t, float(value)))


class PathSeries:
    """One EV of one QP."""

    __slots__ = ("counts", "path", "states")

    def __init__(self, plane: int, uplink: int) -> None:
        self.path = (plane, uplink)
        self.counts: dict[str, CountSeries] = {}
        self.states: list[tuple[float, str]] = []  # (time, state) at the samples in which it was another than before

    def count(self, name: str) -> CountSeries:
        """A count over time; an empty one where the path never had it."""
        return self.counts.get(name, _ZERO)

    def read(self, row: _Row) -> None:
        """Take a row of a sample."""
        t, before, counts, state = row
        for name, value in zip(PATH_COUNTS, counts, strict=True):
            if value:
                _grow(self.counts, name, t, before, value)
        if state and (not self.states or self.states[-1][1] != state):
            self.states.append((t, state))


class PathTable(Mapping[tuple[str, int, int], PathSeries]):
    """The series of all EVs by host, QP and EV, each created on first use: a large fabric has millions of them."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int, int], tuple[tuple[int, int], list[_Row]]] = {}  # with the path
        self._counts: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # each as the one object for all rows

    def add(self, host: str, t: float, before: float, row: dict[str, Any]) -> None:
        """Take a row of a sample; `before` is the time of the host's sample before this one."""
        key = host, row["qp"], row["ev"]
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = (row["plane"], row["uplink"]), []
        counts = tuple([row.get(name) for name in PATH_COUNTS])
        found[1].append((t, before, self._counts.setdefault(counts, counts), row.get("state", "")))

    def __getitem__(self, key: tuple[str, int, int]) -> PathSeries:
        path, rows = self._rows[key]
        made = PathSeries(*path)
        for row in rows:
            made.read(row)
        return made

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Samples:
    """All samples of a run, by subject."""

    def __init__(self, history: History) -> None:
        self.qps: dict[tuple[str, int], QpSeries] = defaultdict(QpSeries)
        self.paths = PathTable()
        self.placed: dict[tuple[str, int], CountSeries] = defaultdict(CountSeries)  # host, plane
        self.socket_drops: dict[str, int] = {}  # by NIC port
        self.late: list[Late] = []  # by host
        self.times: dict[str, list[float]] = defaultdict(list)
        for record in history.of("sample"):
            self._read(record)

    def last(self, keys: Iterable[tuple[str, int]], name: str) -> float:
        """Return the last sampled value of a counter, of some QPs together."""
        found = (self.qps[key].count(name).values for key in keys if key in self.qps)
        return sum(values[-1] for values in found if values)

    def _read(self, record: Record) -> None:
        host, t, data = record.node, record.t, record.data
        taken = self.times[host]
        before = taken[-1] if taken else t
        taken.append(t)
        for row in data.get("qps", ()):
            self.qps[host, row["qp"]].read(t, before, row)
        for row in data.get("paths", ()):
            self.paths.add(host, t, before, row)
        for row in data.get("ports", ()):
            self.placed[host, row["port"]].add(t, row.get("placed_bytes", 0))
            if dropped := row.get("socket_drops", 0):
                name = f"{host}-p{row['port']}"
                self.socket_drops[name] = max(self.socket_drops.get(name, 0), int(dropped))
        late = max(float(data.get("late", 0)), float(data.get("receive_late", 0)))
        self.late.append(Late(late, host, t))


_ZERO = CountSeries()


def _grow(counts: dict[str, CountSeries], name: str, t: float, before: float, value: float) -> None:
    """Append to a counter; where rows were left out it did not change until the sample before this one."""
    counter = counts.get(name)
    if counter is None:
        counter = counts[name] = CountSeries([before], [0.0]) if before < t else CountSeries()
    elif counter.times[-1] < before:
        counter.hold(before)
    counter.add(t, value)
