"""A job: the program of each rank in a step, and the pairs that exchange messages."""

from __future__ import annotations

import functools
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

    def checked(self, steps: int) -> TrainingJob:
        """Return the job; JobError where its steps use more numbers than messages can have."""
        if self.stride * steps >= MAX_NUMBERS:
            raise JobError(
                f"{steps} steps of {self.stride} message numbers each are more than the {MAX_NUMBERS} that an"
                f" immediate can number; give at most {MAX_NUMBERS // self.stride - 1} steps"
            )
        return self

    def sent(self, rank: int) -> dict[int, tuple[int, int]]:
        """Return bytes and messages that a rank sends in a step, by the rank that gets them, in order of first use."""
        found: dict[int, tuple[int, int]] = {}
        for one in self.program(rank).exchanged(SEND):
            size, messages = found.get(one.rank, (0, 0))
            found[one.rank] = size + one.size, messages + one.messages
        return found

    @functools.cached_property
    def pairs(self) -> tuple[tuple[int, int, int], ...]:
        """(source, destination, bytes in a step) of all ranks that exchange messages."""
        return tuple((rank, peer, size) for rank in range(self.ranks) for peer, (size, _) in self.sent(rank).items())

    @functools.cached_property
    def largest(self) -> int:
        """Bytes of the largest message; JobError where it is too large."""
        programs = map(self.program, range(self.ranks))
        found = max((one.largest for program in programs for one in program.exchanged(SEND)), default=1)
        if found > MAX_MESSAGE:
            raise JobError(
                f"a message of {found} bytes is more than the {MAX_MESSAGE} that one may have; lower its size"
            )
        return max(1, found)

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
