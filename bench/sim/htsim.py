"""uet-htsim's programs on a load: writes its files and reads its output."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from mrclab.bench.sim.children import SimCost, measure
from mrclab.bench.sim.common import SimLoad
from mrclab.lab.errors import RunError

NAME = "uet-htsim"
MAX_HOSTS = 8192
"""Largest size: a switch there has 128 ports, with as many uplinks as hosts at a T0."""
_FINISHED = re.compile(r"^Flow \S+(?: flowId (\d+))? .*?finished at ([\d.e+]+)", re.MULTILINE)
_SENT = re.compile(r"^New: (\d+) Rtx: (\d+)", re.MULTILINE)


def program(name: str = "htsim_uec") -> str | None:
    """Return the path of one of its programs, or None."""
    return shutil.which(name)


def run(load: SimLoad, folder: Path) -> SimCost:
    """Run a load in a folder of its own; RunError if not all connections end."""
    matrix = load.matrix()
    (folder / "load.cm").write_text(matrix.text(), encoding="utf-8")
    (folder / "load.topo").write_text(load.topo(), encoding="utf-8")
    found = program(load.htsim_program)
    assert found is not None
    topology = ["-topo", "load.topo"] if load.kind == "mrc" else []  # the others make their own fat trees
    files = ["-tm", "load.cm", *topology, "-o", "log"]
    output, cost = measure([found, *files, *load.options()], folder)
    begun = {str(one.number): one.start for one in matrix.connections if one.start}
    completions = sorted((float(at) - begun.get(number, 0.0)) * 1e-6 for number, at in _FINISHED.findall(output))
    sent = _SENT.search(output)
    if len(completions) != len(matrix.connections) or (sent is None and load.kind == "mrc"):
        lines = output.strip().splitlines()[-1:] or ["nothing"]
        raise RunError(
            f"{found} ended {len(completions)} of {len(matrix.connections)} connections; its last output: {lines[0]}"
        )
    new, retransmitted = (0, 0) if sent is None else (int(sent[1]), int(sent[2]))  # not printed for RoCEv2
    return cost.of(NAME, new + retransmitted, retransmitted, completions)
