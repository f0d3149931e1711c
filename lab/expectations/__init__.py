"""Expectations of a run: models with one method each, and the verdicts they give.

A kind is one class in one module here, registered with `@EXPECTATIONS.register`, or in another package by the entry
point group `mrclab.expectations`. Each reports in one line what it expected, what it observed, and when;
`Verdict.value` is the figure judged, as a number.
"""

from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.expectations.base import EXPECTATIONS, BaseExpectation, Level, Verdict

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

__all__ = [
    "EXPECTATIONS",
    "BaseExpectation",
    "Expectation",
    "Level",
    "Verdict",
    "judge_all",
]

if TYPE_CHECKING:
    Expectation: TypeAlias = BaseExpectation
else:
    Expectation = EXPECTATIONS.union()


def judge_all(measures: "Measures") -> list[Verdict]:
    """Judge every expectation of the scenario in its order, then take its measurements."""
    judged = [entry.check(measures) for entry in measures.scenario.expect]
    return judged + [entry.measure(measures) for entry in measures.scenario.measure]
