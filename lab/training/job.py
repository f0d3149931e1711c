"""A job: the program of each rank in a step, and the pairs that exchange messages."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from mrclab.hosts.workloads.graph import MAX_NUMBERS, RankProgram
from mrclab.hosts.workloads.schedules import SEND

MAX_MESSAGE = 1 << 30
"""Bytes of one message, at most."""


class JobError(ValueError):
    """A job that cannot be; the text is one sentence with the remedy."""


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """`program(rank)` is a rank's program of one step; `stride` the number of message numbers of a step."""

    ranks: int
    stride: int
    program: Callable[[int], RankProgram]

    def check(self, steps: int) -> None:
        """Raise JobError where its steps use more numbers than messages can have, or a message is too large."""
        if self.stride * steps >= MAX_NUMBERS:
            raise JobError(
                f"{steps} steps of {self.stride} message numbers each are more than the {MAX_NUMBERS} that an"
                f" immediate can number; give at most {MAX_NUMBERS // self.stride - 1} steps"
            )
        if self.largest > MAX_MESSAGE:
            raise JobError(
                f"a message of {self.largest} bytes is more than the {MAX_MESSAGE} that one may have; lower its size"
            )

    @functools.cached_property
    def pairs(self) -> tuple[tuple[int, int, int], ...]:
        """(source, destination, bytes in a step) of all ranks that exchange messages, in order of first use."""
        found: Counter[tuple[int, int]] = Counter()
        for rank in range(self.ranks):
            for one in self.program(rank).exchanged(SEND):
                found[rank, one.rank] += one.size
        return tuple((source, destination, size) for (source, destination), size in found.items())

    @functools.cached_property
    def largest(self) -> int:
        """Bytes of the largest message."""
        programs = map(self.program, range(self.ranks))
        return max((one.largest for program in programs for one in program.exchanged(SEND)), default=1) or 1

    @functools.cached_property
    def longest(self) -> float:
        """Seconds of the longest computation."""
        programs = map(self.program, range(self.ranks))
        return max((op.seconds for program in programs for op in program.schedule.ops), default=0.0)

    def of_rank(self, rank: int, steps: int, jitter: float, least: int) -> RankProgram:
        """Return a rank's program of a whole run; messages have at least `least` bytes."""
        return replace(
            self.program(rank), rank=rank, steps=steps, stride=self.stride, largest=max(self.largest, least),
            jitter=jitter,
        )  # fmt: skip
