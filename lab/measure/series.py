"""Numbers over time: cumulative counts and gauges that were sampled, read at any time between their samples."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class CountSeries:
    """A monotonic counter sampled at some times, interpolated linearly in between."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    _read: float = 0.0  # the last sample as it was read
    _base: float = 0.0  # what was counted before the last fall

    def add(self, t: float, value: float) -> None:
        """Append a sample; times must not go back. A count that fell belongs to a process that started at 0 again."""
        if value < self._read:
            self._base += self._read
        self._read = value
        self.times.append(t)
        self.values.append(value + self._base)

    def hold(self, t: float) -> None:
        """Record that the count did not change until a time."""
        self.times.append(t)
        self.values.append(self.values[-1] if self.values else 0.0)

    def at(self, t: float) -> float:
        """The count at a time; before the first sample that one, after the last that one."""
        if not self.times:
            return 0.0
        place = bisect_right(self.times, t)
        if place == 0:
            return self.values[0]
        if place == len(self.times):
            return self.values[-1]
        t0, t1 = self.times[place - 1], self.times[place]
        v0, v1 = self.values[place - 1], self.values[place]
        return v0 + (v1 - v0) * (t - t0) / (t1 - t0) if t1 > t0 else v1

    def at_all(self, moments: Sequence[float]) -> list[float]:
        """The count at rising times, in one pass."""
        times, values = self.times, self.values
        if not times:
            return [0.0] * len(moments)
        found, place, last = [], 0, len(times)
        for t in moments:
            while place < last and times[place] <= t:
                place += 1
            if place == 0:
                found.append(values[0])
            elif place == last:
                found.append(values[-1])
            else:
                t0, v0 = times[place - 1], values[place - 1]
                found.append(v0 + (values[place] - v0) * (t - t0) / (times[place] - t0))
        return found

    def during(self, spans: Sequence[tuple[float, float]]) -> "CountSeries":
        """Return the count as it is if it grows in these spans alone, rising and apart, where any is between samples.

        A sample after the end of a transfer has bytes that came before its end: none belong to the pause.
        """
        edges: dict[int, list[tuple[float, float]]] = {}  # place of a sample → parts of spans since the one before
        for begin, end in spans:
            for place in {bisect_right(self.times, begin), bisect_left(self.times, end)}:
                if 0 < place < len(self.times):
                    first, last = max(begin, self.times[place - 1]), min(end, self.times[place])
                    if first < last:
                        edges.setdefault(place, []).append((first, last))
        if not edges:
            return self
        found = CountSeries()
        for place, (t, value) in enumerate(zip(self.times, self.values, strict=True)):
            if place in edges:
                active = sum(last - first for first, last in edges[place])
                count, growth = found.values[-1], value - found.values[-1]
                for first, last in edges[place]:
                    found.times += (first, last)
                    found.values += (count, count + growth * ((last - first) / active))
                    count = found.values[-1]
            found.times.append(t)
            found.values.append(value)
        return found

    def growth(self, begin: float, end: float) -> float:
        """Growth between two times."""
        return self.at(end) - self.at(begin)

    def rate(self, begin: float, end: float) -> float:
        """Mean growth per second between two times."""
        return self.growth(begin, end) / (end - begin) if end > begin else 0.0


@dataclass(slots=True)
class Gauge:
    """A gauge sampled at some times."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, t: float, value: float) -> None:
        """Append a sample; times must not go back."""
        self.times.append(t)
        self.values.append(value)

    def between(self, begin: float, end: float) -> list[tuple[float, float]]:
        """(time, value) of the samples taken between two times."""
        first, last = bisect_left(self.times, begin), bisect_right(self.times, end)
        return list(zip(self.times[first:last], self.values[first:last], strict=True))


def total(counters: Iterable[CountSeries], begin: float, end: float) -> float:
    """Growth per second of several counters together."""
    return sum(counter.rate(begin, end) for counter in counters)


def edges(begin: float, end: float, step: float) -> list[float]:
    """Bin edges from `begin` to `end`; the last bin may be shorter, but never by more than half."""
    count = max(1, round((end - begin) / step))
    return [begin + step * i for i in range(count)] + [max(end, begin + step * (count - 1) + step / 2)]


def binned(counter: CountSeries, at: Sequence[float]) -> list[float]:
    """Growth per second in each bin."""
    values = counter.at_all(at)
    return [(v1 - v0) / (t1 - t0) for (t0, t1), (v0, v1) in zip(pairwise(at), pairwise(values), strict=True)]


def binned_total(counters: Iterable[CountSeries], at: Sequence[float]) -> list[float]:
    """Growth per second of several counters together, in each bin."""
    sums = [0.0] * (len(at) - 1)
    for counter in counters:
        if counter.times:
            sums = [a + b for a, b in zip(sums, binned(counter, at), strict=True)]
    return sums


def histogram(times: Iterable[float], at: Sequence[float]) -> list[int]:
    """Count the times in each bin."""
    counts = [0] * (len(at) - 1)
    for t in times:
        if at[0] <= t < at[-1]:
            counts[bisect_right(at, t) - 1] += 1
    return counts


def quantile(values: Sequence[float], share: float) -> float:
    """Quantile with linear interpolation; values need not be sorted, and the largest may be infinite."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    if place == low or ordered[low] == ordered[low + 1]:
        return ordered[low]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * (place - low)


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index (Jain, Chiu, Hawe 1984): 1 where all are equal, 1/n where one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0
