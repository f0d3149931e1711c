"""Pictures of one run as matplotlib figures: those of its report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from mrclab.lab.errors import LabError
from mrclab.lab.measure.measures import Measures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mrclab.lab.report.plots.style import Picture


class Plots:
    """Pictures of a run. Each returns a matplotlib Figure; LabError where the run has no data for it."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def goodput(self) -> Figure:
        """Goodput at the receivers, stacked by plane, under the time line of the faults."""
        return self._drawn("goodput", "by_plane")

    def flows(self) -> Figure:
        """Goodput of every flow; of runs with two flows at least."""
        return self._drawn("goodput", "by_flow")

    def paths(self) -> Figure:
        """Traffic by path; of fabrics with two paths at least."""
        return self._drawn("goodput", "by_path")

    def evs(self) -> Figure:
        """State of every EV of the senders' QPs."""
        return self._drawn("evs", "ev_states")

    def losses(self) -> Figure:
        """Packets declared lost, and retransmitted."""
        return self._drawn("losses", "losses")

    def completions(self) -> Figure:
        """Distribution of completion times."""
        return self._drawn("losses", "completions")

    def qps(self) -> Figure:
        """Windows and packets in flight of the senders' QPs."""
        return self._drawn("transport", "transport")

    def queues(self) -> Figure:
        """Queue depths, trims and marks of the switches' ports."""
        return self._drawn("fabric", "switches")

    def training(self) -> Figure:
        """Steps of training jobs."""
        return self._drawn("training", "steps")

    def cpu(self) -> Figure:
        """CPU of the busiest processes; of runs on the wire."""
        return self._drawn("fabric", "cpu")

    def _drawn(self, module: str, name: str) -> Figure:
        """Draw one; matplotlib is loaded here, as it takes a second."""
        picture = cast("Picture", getattr(import_module(f"mrclab.lab.report.plots.{module}"), name))
        figure = picture(self._measures)
        if figure is None:
            raise LabError("this run has no data for this picture; its report leaves it out, too")
        return figure
