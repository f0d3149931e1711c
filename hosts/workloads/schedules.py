"""Collectives as graphs: the messages of one rank of a group, and their dependencies.

A schedule has one operation per message. Operations name their peer by its place in the group, and their message by a
number that both ends know. Sizes are bytes; `size` is the whole buffer of a rank: the data that it reduces, scatters,
has gathered, or sends to all others together. Messages of no bytes carry one, so that they can be waited
for.

Ring: Patarasu and Yuan 2009. Halving and doubling: Rabenseifner 2004; groups that are no power of two fold the rest
into their neighbours before and after. Tree: a binary tree in chunks that follow each other. Hierarchical: reduce
inside a server, across servers, and back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

SEND: Final = 0
RECV: Final = 1
COMPUTE: Final = 2
COLLECTIVE: Final = 3

TREE_CHUNK: Final = 1 << 18  # bytes of a chunk in a tree

ALGORITHMS: Final = ("ring", "tree", "halving_doubling", "hierarchical")


class Op(NamedTuple):
    """One operation; `then` wait for its end, `begun` for its begin, it waits for `needs` others.

    `peer` is a place in the schedule's list of ranks; of a collective, in the program's list of groups.
    """

    kind: int
    size: int = 0  # bytes
    seconds: float = 0.0  # of a computation
    peer: int = 0
    number: int = 0  # of the message, within the schedule; of a collective, of its first message
    unit: int = 0  # processor of the rank that computes
    needs: int = 0
    then: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()
    collective: Collective | None = None
    accepts: frozenset[int] = frozenset()  # a receive accepts the first of these numbers; none: `number`


class Collective(NamedTuple):
    """Kind and settings of a collective; `server`: consecutive ranks of the group that share a server."""

    kind: str
    algorithm: str
    size: int
    server: int = 1
    weights: tuple[float, ...] = ()  # of an all-to-all: shares of the places in what every rank sends
    in_order: bool = False  # of a ring: a step waits for all before it


@dataclass(frozen=True, eq=False)
class Schedule:
    """Operations, those without dependencies, and the number of message numbers."""

    ops: tuple[Op, ...]
    roots: tuple[int, ...]
    span: int


class ScheduleBuilder:
    """Collects operations and their dependencies."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._needs: list[int] = []
        self._then: list[list[int]] = []
        self._begun: list[list[int]] = []

    def __len__(self) -> int:
        return len(self._ops)

    def add(self, op: Op, after: Sequence[int] = (), begun_after: Sequence[int] = ()) -> int:
        """Add an operation that waits for the end of some, and for the begin of others; returns its place."""
        place = len(self._ops)
        self._ops.append(op)
        self._needs.append(0)
        self._then.append([])
        self._begun.append([])
        self.wait(place, after, begun_after)
        return place

    def wait(self, place: int, after: Sequence[int] = (), begun_after: Sequence[int] = ()) -> None:
        """Make an operation wait for others."""
        for other in dict.fromkeys(after):
            self._then[other].append(place)
            self._needs[place] += 1
        for other in dict.fromkeys(begun_after):
            self._begun[other].append(place)
            self._needs[place] += 1

    def schedule(self, span: int = 0) -> Schedule:
        """Return all of it."""
        ops = tuple(
            op._replace(needs=self._needs[place], then=tuple(self._then[place]), begun=tuple(self._begun[place]))
            for place, op in enumerate(self._ops)
        )
        return Schedule(ops, tuple(place for place, op in enumerate(ops) if not op.needs), span)


def chunk(size: int, count: int, place: int) -> tuple[int, int]:
    """(offset, length) of chunk `place` (any integer, taken modulo `count`) of a buffer."""
    place %= count
    begin = size * place // count
    return begin, size * (place + 1) // count - begin


@functools.lru_cache(maxsize=1 << 14)
def schedule(collective: Collective, count: int, rank: int) -> Schedule:
    """Return the schedule of the rank at a place of a group of `count` in a collective."""
    builder = ScheduleBuilder()
    if count > 1:
        _BUILDERS[collective.kind](builder, collective, count, rank)
    return builder.schedule(span(collective, count))


def span(collective: Collective, count: int) -> int:
    """Return the message numbers that a collective uses, the same for every rank."""
    if collective.kind in {"broadcast", "reduce"}:
        return 2 * _tree_chunks(collective.size)
    if collective.kind in {"all_to_all", "gather", "scatter"}:
        return 1
    algorithm = _algorithm(collective, count)
    if collective.kind == "barrier" or algorithm == "halving_doubling":
        return 2 * count.bit_length() + 2
    if algorithm == "hierarchical":
        local = min(collective.server, count)
        return 2 * local + 2 * -(-count // local) + 4
    if algorithm == "tree":
        return 2 * _tree_chunks(collective.size)
    return 2 * count


def _algorithm(what: Collective, count: int) -> str:
    """Return the algorithm; some have no form for a scatter or a gather alone, which use a ring."""
    alone = what.kind in {"reduce_scatter", "all_gather"}
    power = not count & (count - 1)
    if alone and (what.algorithm in {"tree", "hierarchical"} or not power):
        return "ring"
    return what.algorithm


class Exchanged(NamedTuple):
    """Messages between a rank and another, given by its place in a group or by its number."""

    rank: int
    size: int  # bytes
    messages: int
    largest: int  # bytes of one message


@functools.lru_cache(maxsize=1 << 14)
def exchanged(collective: Collective, count: int, rank: int, kind: int) -> tuple[Exchanged, ...]:
    """Return what one rank of a collective sends to each of the others (SEND), or receives (RECV), by place."""
    found: dict[int, list[int]] = {}
    for op in schedule(collective, count, rank).ops:
        if op.kind == kind:
            found.setdefault(op.peer, []).append(op.size)
    return tuple(Exchanged(place, sum(sizes), len(sizes), max(sizes)) for place, sizes in found.items())


# --- rings ------------------------------------------------------------------------------------------------------------


def _ring_pass(
    builder: ScheduleBuilder, members: Sequence[int], place: int, size: int, first: int, number: int, after: list[int],
    in_order: bool = False,
) -> list[int]:  # fmt: skip
    """One pass around the ring: every step forwards the chunk of the last one, beginning with chunk `first`."""
    count = len(members)
    right, left = members[(place + 1) % count], members[place - 1]
    last = after
    for step in range(count - 1):
        builder.add(Op(SEND, chunk(size, count, first - step)[1], peer=right, number=number + step), last)
        came = Op(RECV, chunk(size, count, first - step - 1)[1], peer=left, number=number + step)
        last = [builder.add(came, last if in_order else after)]
    return last


def _ring(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    members, after = range(count), list[int]()
    if what.kind != "all_gather":
        first = rank if what.kind == "all_reduce" else rank - 1
        after = _ring_pass(builder, members, rank, what.size, first, 0, after, what.in_order)
    if what.kind != "reduce_scatter":
        first = rank + 1 if what.kind == "all_reduce" else rank
        _ring_pass(builder, members, rank, what.size, first, count - 1, after, what.in_order)


# --- halving and doubling ---------------------------------------------------------------------------------------------


def _exchange(builder: ScheduleBuilder, peer: int, size: int, number: int, after: list[int]) -> list[int]:
    """Send as many bytes as are received; both count as done for the next steps."""
    builder.add(Op(SEND, size, peer=peer, number=number), after)
    return [builder.add(Op(RECV, size, peer=peer, number=number), after)]


def _halving_doubling(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    power = 1 << (count.bit_length() - 1)
    rest = count - power
    number, after = 0, list[int]()
    bits = power.bit_length() - 1
    if rank >= power:  # folded into the rank that many places before
        builder.add(Op(SEND, what.size, peer=rank - power, number=0))
        builder.add(Op(RECV, what.size, peer=rank - power, number=2 * bits + 1))
        return
    if rank < rest:
        after = [builder.add(Op(RECV, what.size, peer=rank + power, number=0))]
    number = 1
    if what.kind != "all_gather":
        for step in range(bits):
            distance = power >> (step + 1)
            after = _exchange(builder, rank ^ distance, what.size >> (step + 1), number + step, after)
    number += bits
    if what.kind != "reduce_scatter":
        for step in range(bits):
            after = _exchange(builder, rank ^ (1 << step), what.size >> (bits - step), number + step, after)
    if rank < rest:
        builder.add(Op(SEND, what.size, peer=rank + power, number=2 * bits + 1), after)


def _barrier(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    """Dissemination: in round k every rank notifies the one 2^k places on."""
    del what
    after: list[int] = []
    for step in range((count - 1).bit_length()):
        builder.add(Op(SEND, 1, peer=(rank + (1 << step)) % count, number=step), after)
        after = [builder.add(Op(RECV, 1, peer=(rank - (1 << step)) % count, number=step), after)]


# --- trees ------------------------------------------------------------------------------------------------------------


def _tree_chunks(size: int) -> int:
    return max(1, -(-size // TREE_CHUNK))


def _tree(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    """Up a binary tree with its root at place 0, and down again, in pipelined chunks."""
    parent = (rank - 1) // 2
    children = [child for child in (2 * rank + 1, 2 * rank + 2) if child < count]
    chunks = _tree_chunks(what.size)
    for number in range(chunks):
        size, after = chunk(what.size, chunks, number)[1], list[int]()
        if what.kind != "broadcast":
            after = [builder.add(Op(RECV, size, peer=child, number=number)) for child in children]
            if rank:
                builder.add(Op(SEND, size, peer=parent, number=number), after)
        if what.kind != "reduce":
            if rank:
                after = [builder.add(Op(RECV, size, peer=parent, number=chunks + number))]
            for child in children:
                builder.add(Op(SEND, size, peer=child, number=chunks + number), after)


# --- direct -----------------------------------------------------------------------------------------------------------


def share(what: Collective, count: int, place: int) -> int:
    """Bytes of an all-to-all that every rank sends to the one at a place."""
    if not what.weights:
        return what.size // count
    return round(what.size * what.weights[place] / sum(what.weights))


def _all_to_all(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    for step in range(1, count):
        there = (rank + step) % count
        builder.add(Op(SEND, share(what, count, there), peer=there))
    own = share(what, count, rank)
    for step in range(1, count):
        builder.add(Op(RECV, own, peer=(rank - step) % count))


def _gather_or_scatter(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    """Between place 0 and each other: a gather sends to place 0, a scatter from it."""
    kind = SEND if (what.kind == "gather") == bool(rank) else RECV
    for peer in (0,) if rank else range(1, count):
        builder.add(Op(kind, what.size // count, peer=peer))


# --- by levels --------------------------------------------------------------------------------------------------------


def _hierarchical(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    """Reduce-scatter in the server, all-reduce among those at the same place of every server, all-gather again."""
    local = min(what.server, count)
    if count % local:
        raise ValueError(f"{count} ranks do not fill servers of {local}; give a degree that is a multiple")
    servers, place, server = count // local, rank % local, rank // local
    inside = range(server * local, (server + 1) * local)
    across = range(place, count, local)
    after = _ring_pass(builder, inside, place, what.size, place - 1, 0, [])
    mine, number = chunk(what.size, local, place)[1], local
    after = _ring_pass(builder, across, server, mine, server, number, after)
    after = _ring_pass(builder, across, server, mine, server + 1, number + servers, after)
    _ring_pass(builder, inside, place, what.size, place, number + 2 * servers, after)


_Builder = Callable[[ScheduleBuilder, Collective, int, int], None]


def _reducing(builder: ScheduleBuilder, what: Collective, count: int, rank: int) -> None:
    by_algorithm: dict[str, _Builder] = {
        "ring": _ring, "tree": _tree, "halving_doubling": _halving_doubling, "hierarchical": _hierarchical,
    }  # fmt: skip
    by_algorithm[_algorithm(what, count)](builder, what, count, rank)


_BUILDERS: dict[str, _Builder] = {
    "all_reduce": _reducing,
    "reduce_scatter": _reducing,
    "all_gather": _reducing,
    "all_to_all": _all_to_all,
    "broadcast": _tree,
    "reduce": _tree,
    "gather": _gather_or_scatter,
    "scatter": _gather_or_scatter,
    "barrier": _barrier,
}
