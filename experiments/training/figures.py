"""Figures of all runs, kept beside the page so that it can be written again without repeating them.

One JSON file: for each size the steps of its job, by transport the digest of the sources of its runs, and by variant a
list [seed, job ended well, mean step in s, usual step in s, CPU in s, memory in MiB] for each run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrclab.experiments.runs.store import Row, grouped
from mrclab.experiments.training.costs import completed
from mrclab.experiments.training.sizes import SIZES, STEPS, kept, transport_of
from mrclab.topo.input import files

_STEPS = "traffic.job.steps"
_AVERAGE, _USUAL = "step_time (average)", "step_time (usual)"


def merged(old: Mapping[int, Sequence[Row]], directory: Path) -> dict[int, list[Row]]:
    """Add to old rows, by NICs, the runs of a directory.

    The runs of a transport are one program's, as costs compare them: of two programs the one with more runs is taken.
    """
    found: dict[int, list[Row]] = {}
    for size in SIZES:
        chosen = _by_transport(old.get(size.nics, ()))
        for transport, rows in _by_transport(kept(size, directory)).items():
            before = chosen.get(transport, [])
            if before and before[0]["sources"] == rows[0]["sources"]:
                done = {(row["variant"], row["seed"]) for row in rows}
                rows += [row for row in before if (row["variant"], row["seed"]) not in done]
            if len(rows) >= len(before):
                chosen[transport] = rows
        if chosen:
            found[size.nics] = [row for rows in chosen.values() for row in rows]
    return found


def _by_transport(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return grouped(rows, lambda row: transport_of(row["variant"]))


def save(path: Path, found: Mapping[int, Sequence[Row]]) -> None:
    """Write the figures of these rows, a line for each variant."""
    sizes = [f'"{nics}": {_written(rows)}' for nics, rows in sorted(found.items())]
    files.replace_file(path, "{\n" + ",\n".join(sizes) + "\n}\n")


def _written(rows: Sequence[Row]) -> str:
    steps = int(rows[0]["values"].get(_STEPS, STEPS))
    sources = {transport: found[0]["sources"] for transport, found in sorted(_by_transport(rows).items())}
    runs: dict[str, list[list[Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["variant"], row["seed"])):
        times = [row["verdicts"].get(name, {}).get("value") for name in (_AVERAGE, _USUAL)]
        run = [row["seed"], completed(row), *times, row.get("cpu"), row.get("mib")]
        runs.setdefault(row["variant"], []).append(run)
    lines = [f"  {json.dumps(variant)}: {json.dumps(found)}" for variant, found in runs.items()]
    return f'{{"steps": {steps}, "sources": {json.dumps(sources)}, "runs": {{\n' + ",\n".join(lines) + "}}"


def load(path: Path) -> dict[int, list[Row]]:
    """Read the file of `save`; empty if there is none."""
    if not path.is_file():
        return {}
    return {int(nics): _read(about) for nics, about in json.loads(path.read_text(encoding="utf-8")).items()}


def _read(about: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for variant, runs in about["runs"].items():
        for seed, well, average, usual, cpu, memory in runs:
            times = {_AVERAGE: {"value": average}, _USUAL: {"value": usual}}
            used = {"cpu": cpu, "mib": memory} if cpu is not None else {}
            verdicts = {"integrity": {"ok": well}, **times}
            values = {_STEPS: about["steps"]}
            sources = about["sources"][transport_of(variant)]
            known = {"variant": variant, "seed": seed, "error": "", "values": values, "sources": sources}
            rows.append({**known, "verdicts": verdicts, **used})
    return rows
