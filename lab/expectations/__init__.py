"""What a scenario expects of a run: models with one method each, and the verdicts they give.

Every kind says in one line what it wanted, what it saw, and when; `Verdict.value` is the figure judged, as a number.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from mrclab.lab.expectations.base import BaseExpectation, Level, Verdict
from mrclab.lab.expectations.durations import CompletionExpectation, Latency, Rtt
from mrclab.lab.expectations.endings import Clean, Health, Integrity, QpErrors
from mrclab.lab.expectations.evs import EvAffected, EvStateExpectation, EvSwaps, last_changes
from mrclab.lab.expectations.fabric import Drops, FalseAlarms, InjectedExpectation, MapperVerdict, Marks, Trims
from mrclab.lab.expectations.fairness import Jain, PathShare, PlaneBalance, Spread
from mrclab.lab.expectations.losses import Detect, Lost, Recover, Retransmitted
from mrclab.lab.expectations.queues import QueueDepth
from mrclab.lab.expectations.throughput import Goodput, GoodputFloor, Isolation, Stall, reference

if TYPE_CHECKING:
    from mrclab.lab.measure import Measures

__all__ = ["BaseExpectation", "Expectation", "Level", "Verdict", "judge_all", "last_changes", "reference"]

Expectation = Annotated[
    Integrity
    | QpErrors
    | Health
    | Clean
    | Goodput
    | GoodputFloor
    | Stall
    | Isolation
    | Recover
    | Detect
    | Lost
    | Retransmitted
    | EvStateExpectation
    | EvAffected
    | EvSwaps
    | Jain
    | Spread
    | PlaneBalance
    | PathShare
    | CompletionExpectation
    | Latency
    | Rtt
    | Drops
    | InjectedExpectation
    | Trims
    | Marks
    | QueueDepth
    | MapperVerdict
    | FalseAlarms,
    Field(discriminator="kind"),
]


def judge_all(measures: "Measures") -> list[Verdict]:
    """Every expectation of the scenario, in its order."""
    return [entry.check(measures) for entry in measures.scenario.expect]
