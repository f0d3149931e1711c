"""uet-htsim's `htsim_uec` on a load: its files are written, and what it says is read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from mrclab.bench.sim.children import SimCost, measure
from mrclab.bench.sim.common import SimLoad

NAME = "uet-htsim"
MOST_HOSTS = 8192
"""A switch there has 128 ports: of two tiers, with as many uplinks as hosts at a T0, this is the largest."""
_FINISHED = re.compile(r"^Flow .* finished at ([\d.e+]+)", re.MULTILINE)
_SENT = re.compile(r"^New: (\d+) Rtx: (\d+)", re.MULTILINE)


def program() -> str | None:
    """Return the path of `htsim_uec`, or None."""
    return shutil.which("htsim_uec")


def run(load: SimLoad, folder: Path, extra: tuple[str, ...] = ()) -> SimCost:
    """Let it do a load in a folder of its own, where it leaves files; RuntimeError where not all connections end."""
    matrix = load.matrix()
    (folder / "load.cm").write_text(matrix.text(), encoding="utf-8")
    (folder / "load.topo").write_text(load.topo(), encoding="utf-8")
    found = program()
    assert found is not None
    files = ["-tm", "load.cm", "-topo", "load.topo", "-o", "log"]
    said, cost = measure([found, *files, *load.options(), *extra], folder)
    completions = sorted(float(at) * 1e-6 for at in _FINISHED.findall(said))
    sent = _SENT.search(said)
    if len(completions) != len(matrix.connections) or sent is None:
        lines = said.strip().splitlines()[-1:] or ["nothing"]
        raise RuntimeError(
            f"{found} ended {len(completions)} of {len(matrix.connections)} connections; it said last: {lines[0]}"
        )
    return cost.of(NAME, int(sent[1]) + int(sent[2]), int(sent[2]), completions)
