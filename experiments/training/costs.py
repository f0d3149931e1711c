"""Cost of a fault to a job: the time of its steps beyond those of the same transport and seed without a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from mrclab.experiments.training.sizes import TrainingRun
from mrclab.lab.measure.intervals import summary

GPUS = 100_000
FLAPS_PER_DAY = round(4.2 * 60 * 24)
"""T0–T1 flaps of the paper's Figure 5: 4.2 a minute."""

CALM = "calm"


@dataclass(frozen=True)
class FaultCost:
    """Milliseconds lost in each seed whose job did all its steps; the number of seeds whose job did not."""

    lost: tuple[float, ...]
    aborted: int  # seeds in which the job did not do all its steps

    @property
    def seeds(self) -> int:
        """Number of seeds, whether the job went to its end or not."""
        return len(self.lost) + self.aborted

    @property
    def mean(self) -> float:
        """Milliseconds on average."""
        return fmean(self.lost)

    @property
    def half(self) -> float | None:
        """Half of the 95 % interval; None for a single seed."""
        return summary(self.lost).half

    @property
    def gpu_hours(self) -> float:
        """GPU-hours lost to one event that delays all GPUs."""
        return self.mean * 1e-3 * GPUS / 3600


def step(runs: Sequence[TrainingRun], transport: str) -> float | None:
    """Return a step's usual milliseconds without a fault, the mean over the seeds; None where there is no run."""
    found = [run.usual for run in runs if run.variant == f"{transport}-{CALM}" and run.completed and run.usual]
    return 1e3 * fmean(found) if found else None


def cost(runs: Sequence[TrainingRun], transport: str, fault: str) -> FaultCost | None:
    """Return the cost of a fault under a transport; None without a pair of runs of one seed."""
    calm = {run.seed: run.seconds for run in runs if run.variant == f"{transport}-{CALM}" and run.completed}
    pairs = [(run, calm[run.seed]) for run in runs if run.variant == f"{transport}-{fault}" and run.seed in calm]
    if not pairs:
        return None
    lost = [1e3 * (run.seconds - without) for run, without in pairs if run.completed]
    return FaultCost(tuple(lost), len(pairs) - len(lost))
