"""Counters over time: a cumulative count that was sampled, read at any time between its samples."""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass
class Counter:
    """A count that only grows, known at some times; between two of them it is taken to grow evenly."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, t: float, value: float) -> None:
        """Append a sample; times must not go back. A count that fell belongs to a process that started anew."""
        base = self.values[-1] - value if self.values and value < self.values[-1] else 0.0
        self.times.append(t)
        self.values.append(value + base)

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

    def rate(self, begin: float, end: float) -> float:
        """Mean growth per second between two times."""
        return (self.at(end) - self.at(begin)) / (end - begin) if end > begin else 0.0


def total(counters: Iterable[Counter], begin: float, end: float) -> float:
    """Growth per second of several counters together."""
    return sum(counter.rate(begin, end) for counter in counters)


def edges(begin: float, end: float, step: float) -> list[float]:
    """Bin edges from `begin` to `end`; the last bin may be shorter, but never by more than half."""
    count = max(1, round((end - begin) / step))
    return [begin + step * i for i in range(count)] + [max(end, begin + step * (count - 1) + step / 2)]


def binned(counter: Counter, at: Sequence[float]) -> list[float]:
    """Growth per second in each bin."""
    return [counter.rate(a, b) for a, b in itertools.pairwise(at)]
