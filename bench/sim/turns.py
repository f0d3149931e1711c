"""A load here and in uet-htsim alternating, with every seed."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from mrclab.bench.sim import htsim, load
from mrclab.bench.sim.children import SimCost
from mrclab.bench.sim.common import SimLoad
from mrclab.bench.sim.table import SimRow


def here_and_there(asked: SimLoad, seeds: int, *, beside: bool) -> list[SimRow]:
    """One row here, and one there where it is asked for; RuntimeError where a simulator does not end its work."""
    here, there = [], []
    for seed in range(1, seeds + 1):
        here.append(load.run(replace(asked, seed=seed)))
        if beside:
            there.append(_there(replace(asked, seed=seed)))
    return [SimRow.of(asked, costs) for costs in (here, there) if costs]


def only_there(asked: SimLoad, seeds: int, *extra: str) -> SimRow:
    """In uet-htsim alone, with options of its own."""
    return SimRow.of(asked, [_there(replace(asked, seed=seed), extra) for seed in range(1, seeds + 1)])


def _there(asked: SimLoad, extra: tuple[str, ...] = ()) -> SimCost:
    with tempfile.TemporaryDirectory(prefix="mrclab-") as folder:
        return htsim.run(asked, Path(folder), extra)
