"""Figures of all runs, kept beside the page so that it can be written again without repeating them; costs of faults.

One JSON file: for each size the steps of its job, by transport the digest of the sources of its runs, and by variant a
list [seed, job completed, mean step in s, usual step in s, CPU in s, memory in MiB] for each run.
The cost of a fault to a job is the time of its steps beyond those of the same transport and seed without a fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mrclab.experiments.runs.store import grouped
from mrclab.experiments.training.sizes import SIZES, TrainingRun, kept, transport_of
from mrclab.lab.measure.intervals import summary
from mrclab.topo.input import files

GPUS = 100_000
FLAPS_PER_DAY = round(4.2 * 60 * 24)
"""T0–T1 flaps of the paper's Figure 5: 4.2 a minute."""

CALM = "calm"


def merged(old: Mapping[int, Sequence[TrainingRun]], directory: Path) -> dict[int, list[TrainingRun]]:
    """Add to old runs, by NICs, those of a directory.

    All runs of a transport are of one program, since costs compare them; of two, the one with more runs is kept.
    """
    found: dict[int, list[TrainingRun]] = {}
    for size in SIZES:
        chosen = _by_transport(old.get(size.nics, ()))
        for transport, runs in _by_transport(kept(size, directory)).items():
            before = chosen.get(transport, [])
            if before and before[0].sources == runs[0].sources:
                done = {(run.variant, run.seed) for run in runs}
                runs += [run for run in before if (run.variant, run.seed) not in done]
            if len(runs) >= len(before):
                chosen[transport] = runs
        if chosen:
            found[size.nics] = [run for runs in chosen.values() for run in runs]
    return found


def _by_transport(runs: Iterable[TrainingRun]) -> dict[str, list[TrainingRun]]:
    return grouped(runs, lambda run: run.transport)


def save(path: Path, found: Mapping[int, Sequence[TrainingRun]]) -> None:
    """Write the figures of these runs, a line for each variant."""
    sizes = [f'"{nics}": {_written(runs)}' for nics, runs in sorted(found.items())]
    files.replace_file(path, "{\n" + ",\n".join(sizes) + "\n}\n")


def _written(runs: Sequence[TrainingRun]) -> str:
    sources = {transport: some[0].sources for transport, some in sorted(_by_transport(runs).items())}
    by_variant = grouped(sorted(runs, key=lambda run: (run.variant, run.seed)), lambda run: run.variant)
    lines = [f"  {json.dumps(name)}: {json.dumps([run[3:] for run in some])}" for name, some in by_variant.items()]
    return f'{{"steps": {runs[0].steps}, "sources": {json.dumps(sources)}, "runs": {{\n' + ",\n".join(lines) + "}}"


def load(path: Path) -> dict[int, list[TrainingRun]]:
    """Read the file of `save`; empty if there is none."""
    if not path.is_file():
        return {}
    return {int(nics): _read(about) for nics, about in json.loads(path.read_text(encoding="utf-8")).items()}


def _read(about: Mapping[str, Any]) -> list[TrainingRun]:
    return [
        TrainingRun(variant, about["sources"][transport_of(variant)], about["steps"], *run)
        for variant, runs in about["runs"].items() for run in runs
    ]  # fmt: skip


# --- costs ------------------------------------------------------------------------------------------------------------


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
