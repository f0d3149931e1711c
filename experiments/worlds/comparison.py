"""Comparison of both worlds' figures: which agree, and known reasons for the other differences."""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from mrclab.experiments.worlds.figures import Kind, RunFigure
from mrclab.lab.errors import LabError
from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.files.yamlfile import read
from mrclab.topo.input import sentences

FILE = Path(__file__).with_name("because.yaml")
WITHIN = 0.03  # of the wire's median
_SEEDS = 3  # of the wire from which on their own spread is enough to judge a count

State = Literal["within", "spread", "jitter", "explained", "beyond"]


class Explanation(Strict):
    """Why some figures differ, and how far; `run` and `figure` are shell patterns.

    A limit is due: `by`, in the unit of the figure, where the reason says how much; else `spreads`, the gap between the
    ranges of both worlds' seeds in widths of the wider of them, or `share`, of the wire's median, or both of these.
    """

    run: str = "*"
    figure: str | tuple[str, ...]
    by: float | None = Field(default=None, gt=0, description="of the medians' difference, in the figure's unit")
    share: float | None = Field(default=None, gt=0, le=1, description="of the medians' difference, of the wire's")
    spreads: float | None = Field(default=None, gt=0, le=1, description="of the gap between the seeds' ranges")
    sim_is: Literal["less", "more"] | None = Field(default=None, description="in virtual time, than on the wire")
    missing: WorldName | None = Field(default=None, description="has no such figure; `by` limits the other world's")
    because: str

    @model_validator(mode="after")
    def _bounded(self) -> "Explanation":
        for pattern in self.figures:
            if not re.search(r"\w", pattern):
                raise ValueError(f"figure {pattern!r} names no figure; write, for example, 'goodput, *'")
        if (self.by is None) == (self.share is None and self.spreads is None):
            raise ValueError("a reason has a limit; give by, or share, or spreads, or the latter two")
        if self.missing and self.by is None:
            raise ValueError("missing: a figure of one world alone has no difference; give by, the most that it may be")
        return self

    @property
    def figures(self) -> tuple[str, ...]:
        """Patterns of the figures."""
        return (self.figure,) if isinstance(self.figure, str) else self.figure

    def explains(self, run: str, figure: RunFigure, wire: "Side | None", sim: "Side | None") -> bool:
        """Return True if a figure of a run is named here and differs by no more than the limit."""
        named = fnmatchcase(run, literal_brackets(self.run)) and any(
            fnmatchcase(figure.name, literal_brackets(one)) for one in self.figures
        )
        return named and self._allows(figure, wire, sim)

    def _allows(self, figure: RunFigure, wire: "Side | None", sim: "Side | None") -> bool:
        if wire is None or sim is None:
            absent, alone = ("wire", sim) if wire is None else ("sim", wire)
            return alone is not None and self.missing == absent and alone.median <= (self.by or 0.0)
        if self.missing:
            return False
        difference = sim.median - wire.median
        if self.sim_is and (self.sim_is == "more") != (difference > 0):
            return False
        if self.by is not None:
            return abs(difference) <= self.by
        low, high = _range(figure.kind, wire)
        gap, width = max(sim.least - high, low - sim.most), max(high - low, sim.most - sim.least)
        return (self.share is None or abs(difference) <= self.share * abs(wire.median)) and (
            self.spreads is None or gap <= self.spreads * width
        )


class _Reasons(Strict):
    reasons: list[Explanation]


@cache
def reasons(path: Path = FILE) -> list[Explanation]:
    """Return the known reasons; LabError where one names no figures or has no limit."""
    try:
        return _Reasons.model_validate(read(path).data).reasons
    except ValidationError as error:
        raise LabError(f"{path}: {sentences.first(error)}") from None


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
    reason: Explanation | None = None
    jittery: Side | None = None  # virtual time with hosts that answer late

    @property
    def because(self) -> str:
        """The reason why it differs; empty where none is needed, or known."""
        return self.reason.because if self.reason else ""

    @property
    def difference(self) -> float | None:
        """Difference of the medians, as a share of the wire's."""
        if self.wire is None or self.sim is None or not self.wire.median:
            return None
        return self.sim.median / self.wire.median - 1


Sides = tuple[RunFigure, Side | None, Side | None, Side | None]
"""A figure (its value is not used), and its runs on the wire, in virtual time, and there with jitter of hosts."""


def sides(wire: Runs, sim: Runs, jittery: Runs | None = None) -> list[Sides]:
    """Every figure that the runs of a scenario have; those that are 0 in both worlds are left out."""
    named: dict[str, RunFigure] = {}
    for figures in (*wire.values(), *sim.values()):
        named.update({name: figure for name, figure in figures.items() if name not in named})
    both = wire.keys() & sim.keys()
    found = [
        (figure, _side(name, wire, both), _side(name, sim, both), _side(name, jittery or {}, both))
        for name, figure in named.items()
    ]
    return [one for one in found if any(side.least or side.most for side in one[1:3] if side)]


def rows(run: str, found: Iterable[Sides], known: Sequence[Explanation] | None = None) -> list[Row]:
    """Return the figures of a scenario, judged."""
    reasons_known = reasons() if known is None else known
    return [_row(run, *one, reasons_known) for one in found]


def _side(name: str, runs: Runs, both: Set[int]) -> Side | None:
    found = {seed: figures[name].value for seed, figures in runs.items() if name in figures}
    if not found:
        return None
    shared = [value for seed, value in found.items() if seed in both] or list(found.values())
    return Side(statistics.median(shared), min(found.values()), max(found.values()), len(found))


def _row(
    run: str,
    figure: RunFigure,
    wire: Side | None,
    sim: Side | None,
    jittery: Side | None,
    known: Sequence[Explanation],
) -> Row:
    state, reason = judge(figure, wire, sim), None
    if state == "beyond" and _between(figure.kind, wire, sim, jittery):
        state = "jitter"
    if state == "beyond":
        reason = next((one for one in known if one.explains(run, figure, wire, sim)), None)
        state = "explained" if reason else state
    return Row(figure.name, figure.kind, figure.unit, wire, sim, state, reason, jittery)


def _between(kind: Kind, wire: Side | None, sim: Side | None, jittery: Side | None) -> bool:
    """Return True if the wire lies between virtual time without jitter of hosts and with it.

    Of goodput the medians count, within 3 % of the wire's; of all else the ranges of seeds.
    """
    if wire is None or sim is None or jittery is None:
        return False
    if kind == "goodput":
        low, high = sorted((sim.median, jittery.median))
        return low - WITHIN * wire.median <= wire.median <= high + WITHIN * wire.median
    low, high = _range(kind, wire)
    return min(sim.least, jittery.least) <= high and low <= max(sim.most, jittery.most)


def literal_brackets(text: str) -> str:
    """Escape brackets for fnmatch: runs are called `NAME [VARIANT]`."""
    return text.replace("[", "[[]")


def judge(figure: RunFigure, wire: Side | None, sim: Side | None) -> State:
    """Return how well both worlds agree on a figure.

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
    low, high = _range(kind, wire)
    return "spread" if kind != "goodput" and sim.least <= high and low <= sim.most else "beyond"


def _range(kind: Kind, wire: Side) -> tuple[float, float]:
    """Return the range of the wire's seeds, and the scatter of counts where the seeds are too few to show it."""
    low, high = wire.least, wire.most
    if kind == "count" and wire.seeds < _SEEDS:
        return low - 2 * math.sqrt(max(low, 1)), high + 2 * math.sqrt(max(high, 1))
    return low, high
