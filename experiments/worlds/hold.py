"""Both worlds' figures held against each other: which agree, and what is known to set the others apart."""

import math
import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from mrclab.experiments.worlds.figures import Kind, RunFigure
from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.yamlfile import read

FILE = Path(__file__).with_name("because.yaml")
WITHIN = 0.03  # of the wire's median
_SEEDS = 3  # of the wire from which on their own spread is enough to judge a count

State = Literal["within", "spread", "explained", "beyond"]


class Explanation(Strict):
    """Why some figures differ; `run` and `figure` are patterns in the manner of the shell."""

    run: str = "*"
    figure: str | tuple[str, ...]
    by: float | None = Field(default=None, gt=0, description="the most that it explains, in the figure's unit")
    because: str

    def explains(self, run: str, figure: str, difference: float | None) -> bool:
        """Return True if it is why a figure of a run differs by so much; None: one world does not have it."""
        figures = (self.figure,) if isinstance(self.figure, str) else self.figure
        named = fnmatchcase(run, _pattern(self.run)) and any(fnmatchcase(figure, _pattern(f)) for f in figures)
        return named and (self.by is None or (difference is not None and abs(difference) <= self.by))


class _Reasons(Strict):
    reasons: list[Explanation]


@cache
def reasons(path: Path = FILE) -> list[Explanation]:
    """All that is known."""
    return _Reasons.model_validate(read(path).data).reasons


Runs = Mapping[int, Mapping[str, RunFigure]]
"""Seed → figures of the run with that seed, in one world."""


@dataclass(frozen=True)
class Side:
    """Runs of one world for one figure."""

    median: float  # of the seeds that both worlds ran
    least: float  # of all seeds, as is the greatest
    most: float
    seeds: int


@dataclass(frozen=True)
class Row:
    """One figure in both worlds; None where no run of a world has it."""

    name: str
    kind: Kind
    unit: str
    wire: Side | None
    sim: Side | None
    state: State
    because: str = ""

    @property
    def difference(self) -> float | None:
        """Of the medians, as a share of the wire's."""
        if self.wire is None or self.sim is None or not self.wire.median:
            return None
        return self.sim.median / self.wire.median - 1


def rows(run: str, wire: Runs, sim: Runs, known: Sequence[Explanation] | None = None) -> list[Row]:
    """Every figure that the runs of a scenario have; those that are 0 in both worlds are left out."""
    named: dict[str, RunFigure] = {}
    for figures in (*wire.values(), *sim.values()):
        named.update({name: figure for name, figure in figures.items() if name not in named})
    both = wire.keys() & sim.keys()
    made = []
    for name, figure in named.items():
        here, there = _side(name, wire, both), _side(name, sim, both)
        if any(side.least or side.most for side in (here, there) if side):
            made.append(_row(run, figure, here, there, reasons() if known is None else known))
    return made


def _side(name: str, runs: Runs, both: Set[int]) -> Side | None:
    found = {seed: figures[name].value for seed, figures in runs.items() if name in figures}
    if not found:
        return None
    shared = [value for seed, value in found.items() if seed in both] or list(found.values())
    return Side(statistics.median(shared), min(found.values()), max(found.values()), len(found))


def _row(run: str, figure: RunFigure, wire: Side | None, sim: Side | None, known: Sequence[Explanation]) -> Row:
    state, because = judge(figure, wire, sim), ""
    if state == "beyond":
        apart = sim.median - wire.median if sim and wire else None
        because = next((reason.because for reason in known if reason.explains(run, figure.name, apart)), "")
        state = "explained" if because else state
    return Row(figure.name, figure.kind, figure.unit, wire, sim, state, because)


def _pattern(text: str) -> str:
    """Brackets stand for themselves: runs are called `NAME [VARIANT]`."""
    return text.replace("[", "[[]")


def judge(figure: RunFigure, wire: Side | None, sim: Side | None) -> State:
    """Return True if both worlds say the same of a figure.

    `within`: the medians are within 3 % of the wire's, or of the whole where a share is no goodput; for goodput nothing
    else will do. `spread`: the ranges of both worlds' seeds meet. Fewer than three seeds of the wire show too little of
    its spread: a count may then be off by two standard deviations of independent events (2√n) more.
    """
    if wire is None or sim is None:
        return "beyond"
    kind = figure.kind
    whole = 1.0 if kind == "share" and figure.unit.startswith("of ") else abs(wire.median)
    if abs(sim.median - wire.median) <= WITHIN * whole + 1e-12:
        return "within"
    low, high = wire.least, wire.most
    if kind == "count" and wire.seeds < _SEEDS:
        low, high = low - 2 * math.sqrt(max(low, 1)), high + 2 * math.sqrt(max(high, 1))
    return "spread" if kind != "goodput" and sim.least <= high and low <= sim.most else "beyond"
