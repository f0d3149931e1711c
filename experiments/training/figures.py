"""Figures of all runs, kept beside the page so that it can be written again without repeating them.

One JSON file: for each size the steps of its job, by transport the digest of the sources of its runs, and by variant a
list [seed, job completed, mean step in s, usual step in s, CPU in s, memory in MiB] for each run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrclab.experiments.runs.store import grouped
from mrclab.experiments.training.sizes import SIZES, TrainingRun, kept, transport_of
from mrclab.topo.input import files


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
