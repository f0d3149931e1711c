"""What a scenario expects of a run: models with one method each, and the verdicts they give.

Every kind says in one line what it wanted, what it saw, and when; `Verdict.value` is the figure judged, as a number.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lab.expectations.base import BaseExpectation, Level, Verdict
from lab.expectations.durations import Completion, Latency, Rtt
from lab.expectations.endings import Clean, Health, Integrity, QpErrors
from lab.expectations.evs import EvAffected, EvState, EvSwaps, last_changes
from lab.expectations.fabric import Drops, FalseAlarms, Injected, MapperVerdict, Marks, Trims
from lab.expectations.fairness import Jain, PathShare, PlaneBalance, Spread
from lab.expectations.losses import Detect, Lost, Recover, Retransmitted
from lab.expectations.queues import QueueDepth
from lab.expectations.throughput import Goodput, GoodputFloor, Isolation, Stall, reference

if TYPE_CHECKING:
    from lab.measure import Measures

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
    | EvState
    | EvAffected
    | EvSwaps
    | Jain
    | Spread
    | PlaneBalance
    | PathShare
    | Completion
    | Latency
    | Rtt
    | Drops
    | Injected
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
