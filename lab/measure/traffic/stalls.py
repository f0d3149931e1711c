"""Pauses: how long a receiving QP waited for new data."""

from mrclab.lab.measure.samples import Samples
from mrclab.lab.measure.traffic.flows import MeasuredFlow, MeasuredFlows, Selection


class Stalls:
    """Pauses of the receivers of one run."""

    def __init__(self, flows: MeasuredFlows, samples: Samples, sample_interval: float) -> None:
        self._sampling = sample_interval  # seconds between two samples of a host
        self._samples = samples
        self._flows = flows

    def between(self, begin: float, end: float, chosen: Selection) -> list[tuple[float, float]]:
        """(time, length) of the longest pause of each sampling interval, and of pauses that never ended; longest first.

        The part of a pause before the window does not count.
        KeyError where no such traffic ran; empty where no receiver was sampled.
        """
        found = []
        for flow in self._flows.select(chosen):
            keys = flow.receivers or [key for key in self._samples.qps if key[0] == flow.destination]
            for key in keys:
                series = self._samples.qps[key]
                found += [(t, min(gap, t - begin)) for t, gap in series.gaps if begin <= t <= end]
                found += [(end, end - max(begin, t - gap)) for t, gap in series.gaps if t > end > t - gap]
                found += self._open(flow, key, begin, end)
        return sorted(found, key=lambda pause: -pause[1])

    def _open(self, flow: MeasuredFlow, key: tuple[str, int], begin: float, end: float) -> list[tuple[float, float]]:
        """The pause still open at the end of the window, if the flow had not ended.

        It begins with the window or the flow where no data had come before.
        """
        series = self._samples.qps[key]
        placed = series.count("placed_bytes")
        until = min(end, flow.end)
        moved = [t for t, v0, v1 in zip(placed.times[1:], placed.values, placed.values[1:], strict=False) if v1 > v0]
        came = [t for t in (*moved, *(t for t, _ in series.gaps)) if t <= until + 2 * self._sampling]
        since = max(begin, flow.begin, *came)
        return [(until, until - since)] if since + self._sampling < until else []
