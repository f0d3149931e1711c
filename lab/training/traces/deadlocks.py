"""Ranks of a recorded job that wait for each other, found by an execution in which no time passes."""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from mrclab.hosts.workloads.schedules import COLLECTIVE, RECV, SEND, Op, Schedule
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import RecordedRank

_Place = tuple[int, int]  # rank, and place of an operation in its schedule
_WAITS, _BEGUN, _ENDED = range(3)


def check(ranks: Sequence[RecordedRank], schedules: Sequence[Schedule]) -> None:
    """Raise JobError where no order of the operations, which are those of the nodes, brings all ranks to their end."""
    _Execution(ranks, schedules).run()


class _Execution:
    def __init__(self, ranks: Sequence[RecordedRank], schedules: Sequence[Schedule]) -> None:
        self._ranks = ranks
        self._schedules = schedules
        self._needs = [[op.needs for op in one.ops] for one in schedules]
        self._states = [bytearray(len(one.ops)) for one in schedules]
        self._ends: dict[int, list[_Place]] = defaultdict(list)  # of a message or collective, by its number
        for rank, one in enumerate(schedules):
            for number, op in enumerate(one.ops):
                if op.kind == SEND or _is_met(op):
                    self._ends[op.number].append((rank, number))
        self._absent = Counter({number: len(ends) for number, ends in self._ends.items()})

    def _op(self, place: _Place) -> Op:
        return self._schedules[place[0]].ops[place[1]]

    def _state(self, place: _Place) -> int:
        return self._states[place[0]][place[1]]

    def run(self) -> None:
        """Begin every operation that can begin, until none is left that can."""
        ready = [(rank, root) for rank, one in enumerate(self._schedules) for root in one.roots]
        while ready:
            place = ready.pop()
            self._states[place[0]][place[1]] = _BEGUN
            ready += self._released(place[0], self._op(place).begun)
            for rank, number in self._ending(place):
                self._states[rank][number] = _ENDED
                ready += self._released(rank, self._schedules[rank].ops[number].then)
        for rank, states in enumerate(self._states):
            stuck = next((number for number, state in enumerate(states) if state != _ENDED), None)
            if stuck is not None:
                raise JobError(self._sentence((rank, stuck)))

    def _released(self, rank: int, waiting: Iterable[int]) -> Iterator[_Place]:
        needs = self._needs[rank]
        for number in waiting:
            needs[number] -= 1
            if not needs[number]:
                yield rank, number

    def _ending(self, place: _Place) -> list[_Place]:
        """Return the operations that end because this one begins: itself, its receive, or all of its collective."""
        op = self._op(place)
        ending = [] if _is_met(op) else [place]
        if op.kind == SEND or _is_met(op):
            self._absent[op.number] -= 1
            if not self._absent[op.number]:
                ending += [one for one in self._ends[op.number] if self._op(one).kind != SEND]
        return ending

    def _sentence(self, place: _Place) -> str:
        """Name an operation of the cycle that an operation waits for."""
        walk: dict[_Place, None] = {}
        while place not in walk:
            walk[place] = None
            place = self._awaited(place)
        cycle = itertools.dropwhile(lambda one: one != place, walk)
        rank, number = place = next((one for one in cycle if self._state(one) == _BEGUN), place)
        node, file = self._ranks[rank].nodes[number], self._ranks[rank].file
        if self._state(place) == _WAITS:
            return f"{file}: {node.text} waits for itself by way of others; break the cycle"
        other, awaited = self._awaited(place)
        return (
            f"{file}: {node.text} waits for rank {other}, which waits for it in turn at"
            f" {self._ranks[other].nodes[awaited].text}; break the cycle"
        )

    def _awaited(self, place: _Place) -> _Place:
        """Return an operation that has to begin, or to end, before this one can."""
        rank, number = place
        if self._state(place) == _BEGUN:
            return next(one for one in self._ends[self._op(place).number] if self._state(one) == _WAITS)
        node, places = self._ranks[rank].nodes[number], self._places[rank]
        before = [(key, _ENDED) for key in node.after] + [(key, _BEGUN) for key in node.begun_after]
        return next((rank, places[key]) for key, enough in before if self._states[rank][places[key]] < enough)

    @functools.cached_property
    def _places(self) -> list[dict[int, int]]:
        return [{node.key: number for number, node in enumerate(one.nodes)} for one in self._ranks]


def _is_met(op: Op) -> bool:
    """Return True for an operation that waits for others; a receive of several messages takes whichever comes."""
    return op.kind == COLLECTIVE or (op.kind == RECV and not op.accepts)
