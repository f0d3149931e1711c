"""Pictures of one run as matplotlib figures: those of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrclab.lab.errors import LabError
from mrclab.lab.measure.measures import Measures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Plots:
    """Pictures of a run. Each returns a matplotlib Figure; LabError where the run has no data for it."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def goodput(self) -> Figure:
        """Goodput at the receivers, stacked by plane, under the time line of the faults."""
        return self._drawn("goodput")

    def flows(self) -> Figure:
        """Goodput of every flow; of runs with two flows at least."""
        return self._drawn("flows")

    def paths(self) -> Figure:
        """Traffic by path; of fabrics with two paths at least."""
        return self._drawn("paths")

    def evs(self) -> Figure:
        """State of every EV of the senders' QPs."""
        return self._drawn("evs")

    def losses(self) -> Figure:
        """Packets declared lost, and retransmitted."""
        return self._drawn("losses")

    def completions(self) -> Figure:
        """Distribution of completion times."""
        return self._drawn("completions")

    def qps(self) -> Figure:
        """Windows and packets in flight of the senders' QPs."""
        return self._drawn("transport")

    def queues(self) -> Figure:
        """Queue depths, trims and marks of the switches' ports."""
        return self._drawn("switches")

    def training(self) -> Figure:
        """Steps of training jobs."""
        return self._drawn("training")

    def cpu(self) -> Figure:
        """CPU of the busiest processes; of runs on the wire."""
        return self._drawn("cpu")

    def _drawn(self, name: str) -> Figure:
        from mrclab.lab.report.plots import PICTURES  # noqa: PLC0415 - Matplotlib takes a second to load

        figure = PICTURES[name][1](self._measures)
        if figure is None:
            raise LabError("this run has no data for this picture; its report leaves it out, too")
        return figure
