"""A job: the program of each rank in a step, and the pairs that exchange messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mrclab.hosts.workloads.graph import MAX_NUMBERS, RankProgram
from mrclab.hosts.workloads.schedules import COLLECTIVE, SEND, Collective, ends, schedule

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
        program = self.program(rank)
        found: dict[int, tuple[int, int]] = {}

        def add(peer: int, size: int, count: int) -> None:
            before = found.get(peer, (0, 0))
            found[peer] = before[0] + size, before[1] + count

        for op in program.schedule.ops:
            if op.kind == SEND:
                add(program.peers[op.peer], op.size, 1)
            elif op.kind == COLLECTIVE and op.collective is not None:
                ranks, mine = program.groups[op.peer]
                for place, size, count in _sent(op.collective, len(ranks), mine):
                    add(ranks[place], size, count)
        return found

    @functools.cached_property
    def pairs(self) -> tuple[tuple[int, int, int], ...]:
        """(source, destination, bytes in a step) of all that talk to each other."""
        return tuple((rank, peer, size) for rank in range(self.ranks) for peer, (size, _) in self.sent(rank).items())

    @functools.cached_property
    def largest(self) -> int:
        """Bytes of the largest message; JobError where it is too large."""
        found = max((size for rank in range(self.ranks) for size in _sizes(self.program(rank))), default=1)
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


@functools.lru_cache(maxsize=1 << 14)
def _sent(collective: Collective, count: int, rank: int) -> tuple[tuple[int, int, int], ...]:
    """(place, bytes, messages) that one rank of a collective sends to each of the others."""
    found: dict[int, list[int]] = {}
    for kind, peer, size in ends(collective, count, rank):
        if kind == SEND:
            row = found.setdefault(peer, [0, 0])
            row[0] += size
            row[1] += 1
    return tuple((place, size, messages) for place, (size, messages) in found.items())


@functools.lru_cache(maxsize=1 << 14)
def _largest(collective: Collective, count: int, rank: int) -> int:
    return max((op.size for op in schedule(collective, count, rank).ops), default=0)


def _sizes(program: RankProgram) -> Iterator[int]:
    for op in program.schedule.ops:
        if op.kind == COLLECTIVE and op.collective is not None:
            ranks, mine = program.groups[op.peer]
            yield _largest(op.collective, len(ranks), mine)
        else:
            yield op.size
