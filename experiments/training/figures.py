"""Figures of all runs, kept beside the page so that it can be written again without repeating them.

One JSON file: for each size the steps of its job, by transport the digest of the sources of its runs, and by variant a
list [seed, job ended well, mean step in s, usual step in s, CPU in s, memory in MiB] for each run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrclab.experiments.runs.store import Row
from mrclab.experiments.training.costs import completed
from mrclab.experiments.training.sizes import SIZES, STEPS, kept, transport_of
from mrclab.topo.input import files

_STEPS = "traffic.job.steps"
_AVERAGE, _USUAL = "step_time (average)", "step_time (usual)"

StoredFigures = Mapping[int, Mapping[str, tuple[str, Sequence[Row]]]]
"""By NICs and transport: the digest of the sources, and the rows."""


def merged(old: StoredFigures, directory: Path) -> StoredFigures:
    """Add to old figures the runs of a directory.

    The runs of a transport are one program's, as costs compare them: of two programs the one with more runs is taken.
    """
    found = {nics: dict(of_transports) for nics, of_transports in old.items()}
    for size in SIZES:
        digest, rows = kept(size, directory) or ("", [])
        of_size = found.setdefault(size.nics, {})
        for transport, of_transport in _by_transport(rows).items():
            before, runs = of_size.get(transport, ("", ()))
            if digest == before:
                done = {(row["variant"], row["seed"]) for row in of_transport}
                of_transport += [row for row in runs if (row["variant"], row["seed"]) not in done]
            if len(of_transport) >= len(runs):
                of_size[transport] = digest, of_transport
    return {nics: of_size for nics, of_size in found.items() if of_size}


def rows_of(of_transports: Mapping[str, tuple[str, Sequence[Row]]]) -> list[Row]:
    """Return the rows of all transports."""
    return [row for _, rows in of_transports.values() for row in rows]


def _by_transport(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(transport_of(row["variant"]), []).append(row)
    return found


def save(path: Path, found: StoredFigures) -> None:
    """Write the figures of these rows, a line for each variant."""
    sizes = [f'"{nics}": {_written(of_transports)}' for nics, of_transports in sorted(found.items())]
    files.replace_file(path, "{\n" + ",\n".join(sizes) + "\n}\n")


def _written(of_transports: Mapping[str, tuple[str, Sequence[Row]]]) -> str:
    rows = rows_of(of_transports)
    sources = {transport: digest for transport, (digest, _) in sorted(of_transports.items())}
    steps = int(rows[0]["values"].get(_STEPS, STEPS))
    runs: dict[str, list[list[Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["variant"], row["seed"])):
        times = [row["verdicts"].get(name, {}).get("value") for name in (_AVERAGE, _USUAL)]
        run = [row["seed"], completed(row), *times, row.get("cpu"), row.get("mib")]
        runs.setdefault(row["variant"], []).append(run)
    lines = [f"  {json.dumps(variant)}: {json.dumps(found)}" for variant, found in runs.items()]
    return f'{{"steps": {steps}, "sources": {json.dumps(sources)}, "runs": {{\n' + ",\n".join(lines) + "}}"


def load(path: Path) -> StoredFigures:
    """Read the file of `save`; empty if there is none."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {
        int(nics): {
            transport: (about["sources"][transport], rows) for transport, rows in _by_transport(_read(about)).items()
        }
        for nics, about in found.items()
    }


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
