"""Figures of all runs, kept beside the page so that it can be written again without repeating them.

One JSON file: for each size the digest of its sources, the steps of its job, and by variant a list
[seed, job ended well, mean step in s, usual step in s, CPU in s, memory in MiB] for each run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrclab.experiments.runs.store import Row
from mrclab.experiments.training.costs import completed
from mrclab.experiments.training.sizes import SIZES, STEPS, kept
from mrclab.topo.input import files

_STEPS = "traffic.job.steps"
_AVERAGE, _USUAL = "step_time (average)", "step_time (usual)"

StoredFigures = Mapping[int, tuple[str, Sequence[Row]]]
"""By NICs: the digest of the sources, and the rows."""


def merged(old: StoredFigures, directory: Path) -> StoredFigures:
    """Add to old figures the runs of a directory: one program's together; of two programs, the one with more runs."""
    found = dict(old)
    for size in SIZES:
        digest, rows = kept(size, directory) or ("", [])
        before, runs = found.get(size.nics, ("", []))
        if digest == before:
            done = {(row["variant"], row["seed"]) for row in rows}
            rows = [*rows, *(row for row in runs if (row["variant"], row["seed"]) not in done)]
        if rows and len(rows) >= len(runs):
            found[size.nics] = digest, rows
    return found


def save(path: Path, found: StoredFigures) -> None:
    """Write the figures of these rows, a line for each variant."""
    sizes = [f'"{nics}": {_written(digest, rows)}' for nics, (digest, rows) in sorted(found.items())]
    files.replace_file(path, "{\n" + ",\n".join(sizes) + "\n}\n")


def _written(digest: str, rows: Sequence[Row]) -> str:
    steps = int(rows[0]["values"].get(_STEPS, STEPS)) if rows else STEPS
    runs: dict[str, list[list[Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["variant"], row["seed"])):
        times = [row["verdicts"].get(name, {}).get("value") for name in (_AVERAGE, _USUAL)]
        run = [row["seed"], completed(row), *times, row.get("cpu"), row.get("mib")]
        runs.setdefault(row["variant"], []).append(run)
    lines = [f"  {json.dumps(variant)}: {json.dumps(found)}" for variant, found in runs.items()]
    return f'{{"sources": {json.dumps(digest)}, "steps": {steps}, "runs": {{\n' + ",\n".join(lines) + "}}"


def load(path: Path) -> dict[int, tuple[str, list[Row]]]:
    """Read the file of `save`; empty if there is none."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {int(nics): (about["sources"], _read(about)) for nics, about in found.items()}


def _read(about: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for variant, runs in about["runs"].items():
        for seed, well, average, usual, cpu, memory in runs:
            times = {_AVERAGE: {"value": average}, _USUAL: {"value": usual}}
            used = {"cpu": cpu, "mib": memory} if cpu is not None else {}
            verdicts = {"integrity": {"ok": well}, **times}
            values = {_STEPS: about["steps"]}
            known = {"variant": variant, "seed": seed, "error": "", "values": values}
            rows.append({**known, "verdicts": verdicts, **used})
    return rows
