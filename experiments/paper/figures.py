"""Models of the paper's measurements and of the rules for reproducing them: figures.yaml and at-speed.yaml.

Numbers are those of arXiv 2605.04333. In figures.yaml they are shares of line rate or ratios, to be compared with a
network some thousand times slower; in at-speed.yaml they are as printed, in Gb/s and µs. A row's `ours` is one figure,
`variant.expectation`, or two with `/` or `-` between them; an expectation that reports round trips has a second
figure, `expectation-seconds`.

`accept: rule` is one rule for all: within 5 % of the paper's figure, or within the effect that the figure shows where
that is smaller, but not below 1 %, with which figures are read from a picture; or half of the last digit printed.
"""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.files.yamlfile import read

FILE = Path(__file__).with_name("figures.yaml")
AT_SPEED = Path(__file__).with_name("at-speed.yaml")
_TERM = r"[a-z0-9-]*\.[a-z0-9-]+"
_EXPRESSION = re.compile(rf"\s*({_TERM})(?:\s+([/-])\s+({_TERM}))?\s*")
_NUMBER = r"-?\d+(?:\.\d*)?"
_HALF_A_DIGIT = 0.5  # Gb/s, in which Figures 16 and 17 are read
_UNIT_FACTOR = {"Gb/s": 8e-9, "µs": 1e6}  # what a figure in bytes per second, or in seconds, is multiplied by
_ACCEPT = re.compile(rf"\s*(?:(≥|≤)\s*({_NUMBER})|({_NUMBER})\s*…\s*({_NUMBER})|({_NUMBER})\s*±\s*({_NUMBER})\s*%)\s*")

WIDEST, NARROWEST = 5.0, 1.0
"""Per cent of the paper's figure that the rule accepts."""


def _matches(pattern: re.Pattern[str], example: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{text!r} is not understood; write, for example, {example}")
        return text

    return AfterValidator(check)


class FigureRow(Strict):
    """One number of the paper and ours beside it."""

    what: str
    ours: Annotated[str, _matches(_EXPRESSION, "mrc.total, or mrc.time / roce-1.time")]
    paper: float | None = Field(default=None, description="absent where the paper prints none")
    accept: Annotated[str, _matches(_ACCEPT, "≥ 0.9, 0.25 … 0.6 or 0.75 ± 3 %")] | None = None
    unit: str = ""
    moved: int | None = Field(default=None, description="bytes: ours is the time they took, and the figure their rate")
    because: str = Field(default="", description="why ours is not the paper's")
    effect: float | None = Field(default=None, description="per cent that the figure is from an undisturbed one")
    absent: float | None = Field(default=None, description="the figure without the effect, which `accept` excludes")
    any_sender: bool = Field(default=False, description="line rate times what is left: tests no transport")

    @model_validator(mode="before")
    @classmethod
    def _apply_rule(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("accept") != "rule":
            return data
        paper, percent = data.get("paper"), max(NARROWEST, min(WIDEST, data.get("effect") or WIDEST))
        if not isinstance(paper, (int, float)):
            raise ValueError("accept: rule needs a figure of the paper's; add `paper`")
        half = data.get("unit") == "Gb/s" and "moved" in data and percent / 100 * paper < _HALF_A_DIGIT
        rule = f"{paper - _HALF_A_DIGIT:g} … {paper + _HALF_A_DIGIT:g}" if half else f"{paper:.9g} ± {percent:g} %"
        return {**data, "accept": rule}

    @model_validator(mode="after")
    def _excludes_no_effect(self) -> "FigureRow":
        if self.absent is not None and self.accepts(self.absent):
            raise ValueError(f"{self.what}: {self.accept} accepts {self.absent:g}, the figure without the effect")
        return self

    def value(self, figures: Mapping[tuple[str, str], float]) -> float | None:
        """Ours in the row's unit, out of (variant, expectation) → figure in SI units; None where one is missing."""
        found = self._evaluate(figures)
        if found is None or (self.moved is not None and not found):
            return None
        return _UNIT_FACTOR.get(self.unit, 1.0) * (found if self.moved is None else self.moved / found)

    def _evaluate(self, figures: Mapping[tuple[str, str], float]) -> float | None:
        match = _EXPRESSION.fullmatch(self.ours)
        assert match is not None
        first, operator, second = match.groups()
        a = figures.get(_key(first))
        if operator is None or a is None:
            return a
        b = figures.get(_key(second))
        if b is None or (operator == "/" and not b):
            return None
        return a / b if operator == "/" else a - b

    def accepts(self, value: float) -> bool | None:
        """Return True if a value reproduces the paper's; None where no rule says."""
        band = self.band
        return None if band is None else band[0] <= value <= band[1]

    @property
    def band(self) -> tuple[float, float] | None:
        """Least and greatest value that reproduce the paper's; None where no rule says."""
        if self.accept is None:
            return None
        match = _ACCEPT.fullmatch(self.accept)
        assert match is not None
        sign, limit, low, high, near, percent = match.groups()
        if sign:
            return (float(limit), math.inf) if sign == "≥" else (-math.inf, float(limit))
        if low:
            return float(low), float(high)
        tolerance = float(percent) / 100 * abs(float(near))
        return float(near) - tolerance, float(near) + tolerance


def _key(term: str) -> tuple[str, str]:
    variant, _, expectation = term.partition(".")
    return variant, expectation


class Experiment(Strict):
    """One experiment: a scenario, the item of the paper that it mirrors, and its rows."""

    scenario: str = Field(description="name of the scenario, without variant")
    title: str
    mirrors: str = Field(description="figure or table of the paper")
    paper_says: str
    rows: list[FigureRow]
    over_time: list[str] = Field(default=[], description="variants whose goodput is drawn over time")
    flows: bool = Field(default=False, description="draw each flow of the first of them")
    curve: Literal["collective"] | None = Field(default=None, description="completion times by size, for each variant")
    sizes: str = Field(default="", description="the paper's size, ours, and why that keeps the result")
    note: str = Field(default="", description="what differs from the paper's set-up, or why a shape is not met")


class _Figures(Strict):
    experiments: list[Experiment]


@cache
def load(path: Path = FILE) -> list[Experiment]:
    """All experiments, in the paper's order."""
    return _Figures.model_validate(read(path).data).experiments
