"""Ranks of a recorded job that wait for each other: cycles among the begins of their operations."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from mrclab.hosts.workloads.schedules import COLLECTIVE, RECV, SEND, Op, Schedule
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import RecordedRank


def check(ranks: Sequence[RecordedRank], schedules: Sequence[Schedule]) -> None:
    """Raise JobError where no order of the operations, which are those of the nodes, brings all ranks to their end.

    Steps of the order are the begins of operations, counted through all ranks, and the meetings of both ends of a
    message or of all ranks of a collective, whose numbers count down from -1.
    """
    order: TopologicalSorter[int] = TopologicalSorter()
    places = [(rank, place) for rank, schedule in enumerate(schedules) for place in range(len(schedule.ops))]
    first = 0
    for schedule in schedules:
        for begin, op in enumerate(schedule.ops, first):
            end = meeting = -1 - op.number
            if op.kind == SEND or _is_met(op):
                order.add(meeting, begin)
            if not _is_met(op):
                end = begin
            for other in op.then:
                order.add(first + other, end)
            for other in op.begun:
                order.add(first + other, begin)
        first += len(schedule.ops)
    try:
        order.prepare()
    except CycleError as error:
        raise JobError(_sentence(error.args[1], places, ranks, schedules)) from None


def _sentence(
    cycle: list[int], places: Sequence[tuple[int, int]], ranks: Sequence[RecordedRank], schedules: Sequence[Schedule]
) -> str:
    """Name an operation of a cycle, in which each step waits for the one before it, and what it waits for."""
    steps = zip(cycle, cycle[1:], [*cycle[2:], cycle[1]], strict=False)
    meetings = [(places[after][0], places[before], -1 - meeting) for before, meeting, after in steps if meeting < 0]
    waits = [(rank, other, number) for rank, other, number in meetings if other[0] != rank]
    if not waits:
        rank, place = places[min(step for step in cycle if step >= 0)]
        return f"{ranks[rank].file}: {ranks[rank].nodes[place].text} waits for itself by way of others; break the cycle"
    rank, (other, awaited), number = min(waits)
    place = next(place for place, op in enumerate(schedules[rank].ops) if _is_met(op) and op.number == number)
    return (
        f"{ranks[rank].file}: {ranks[rank].nodes[place].text} waits for rank {other}, which waits for it in turn at"
        f" {ranks[other].nodes[awaited].text}; break the cycle"
    )


def _is_met(op: Op) -> bool:
    """Return True for an operation that waits for others; a receive of several messages takes whichever comes."""
    return op.kind == COLLECTIVE or (op.kind == RECV and not op.accepts)
