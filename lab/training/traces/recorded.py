"""A recorded job as any format gives it, and the graph that it becomes: every send finds its receive, or is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrclab.hosts.workloads.graph import RankProgram
from mrclab.hosts.workloads.schedules import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    Collective,
    Op,
    Schedule,
    ScheduleBuilder,
    span,
)
from mrclab.lab.training.job import JobError, TrainingJob
from mrclab.lab.training.traces import deadlocks
from mrclab.lab.training.traces.nodes import ANY, RecordedNode, RecordedRank
from mrclab.lab.training.traces.wildcards import Wildcards


class _RecordedNumbers:
    """Message numbers of the whole job: the k-th send of a pair and tag has that of the k-th receive."""

    def __init__(self) -> None:
        self.used = 0
        self._messages: dict[tuple[int, int, int, int], int] = {}
        self._collectives: dict[tuple[tuple[int, ...], int], tuple[int, RecordedNode, str]] = {}

    def message(self, key: tuple[int, int, int, int]) -> int:
        """Return the number of (source, destination, tag, k)."""
        if key not in self._messages:
            self._messages[key] = self.used
            self.used += 1
        return self._messages[key]

    def collective(self, group: tuple[int, ...], turn: int, what: Collective, node: RecordedNode, file: str) -> int:
        """Return the first number of a group's `turn`-th collective; JobError where ranks do not do the same."""
        known = self._collectives.get((group, turn))
        if known is None:
            known = self._collectives[group, turn] = self.used, node, file
            self.used += span(what, len(group))
        number, first, where = known
        if (first.collective, first.size) != (node.collective, node.size):
            raise JobError(
                f"{file}: {node.text} is {node.collective} of {node.size} bytes, where {where} has"
                f" {first.collective} of {first.size} in {first.text}; all ranks of a group do the same in one order"
            )
        return number


def job(ranks: Sequence[RecordedRank], algorithm: str) -> TrainingJob:
    """Return the graph of a recorded job; JobError names file and node of an error."""
    numbers = _RecordedNumbers()
    sends: dict[tuple[int, int, int], list[tuple[RecordedNode, str]]] = {}
    receives: dict[tuple[int, int, int], list[tuple[RecordedNode, str]]] = {}
    made: list[tuple[Schedule, tuple[tuple[Sequence[int], int], ...]]] = []
    members: dict[tuple[int, ...], dict[int, int]] = {}  # group → rank → collectives
    wild = Wildcards(ranks, numbers.message)
    for rank, recorded in enumerate(ranks):
        made.append(_of_rank(rank, recorded, len(ranks), algorithm, numbers, sends, receives, members, wild))
    wild.check()
    _check_pairs(sends, receives)
    _check_groups(members, ranks)
    deadlocks.check(ranks, wild.covers)
    everybody = range(len(ranks))

    def program(rank: int) -> RankProgram:
        schedule, groups = made[rank]
        return RankProgram(schedule, everybody, groups, rank=rank)

    return TrainingJob(len(ranks), max(1, numbers.used), program)


_Ends = dict[tuple[int, int, int], list[tuple[RecordedNode, str]]]


def _of_rank(
    rank: int,
    recorded: RecordedRank,
    count: int,
    algorithm: str,
    numbers: _RecordedNumbers,
    sends: _Ends,
    receives: _Ends,
    members: dict[tuple[int, ...], dict[int, int]],
    wild: Wildcards,
) -> tuple[Schedule, tuple[tuple[Sequence[int], int], ...]]:
    builder, file = ScheduleBuilder(), recorded.file
    places: dict[int, int] = {}
    groups: dict[tuple[int, ...], int] = {}
    for node in recorded.nodes:
        if node.key in places:
            raise JobError(f"{file}: {node.text} has an id that another node has; give every node its own")
        if node.kind in {SEND, RECV}:
            op = _message(rank, node, file, count, numbers, sends, receives, wild)
        elif node.kind == COLLECTIVE:
            group = node.group or tuple(range(count))
            _check_group(rank, node, file, group, count)
            turns = members.setdefault(group, {})
            turn = turns[rank] = turns.get(rank, 0) + 1
            what = Collective(node.collective, algorithm, node.size)
            number = numbers.collective(group, turn, what, node, file)
            op = Op(COLLECTIVE, peer=groups.setdefault(group, len(groups)), number=number, collective=what)
        else:
            op = Op(COMPUTE, seconds=node.seconds, unit=node.unit)
        places[node.key] = builder.add(op)
    for node in recorded.nodes:
        builder.wait(
            places[node.key], _found(node, node.after, places, file), _found(node, node.begun_after, places, file)
        )
    stuck = builder.cycle()
    if stuck is not None:
        raise JobError(f"{file}: {recorded.nodes[stuck].text} waits for itself by way of others; break the cycle")
    return builder.schedule(), tuple((group, group.index(rank)) for group in groups)


def _found(node: RecordedNode, keys: Iterable[int], places: dict[int, int], file: str) -> list[int]:
    try:
        return [places[key] for key in keys]
    except KeyError as error:
        raise JobError(f"{file}: {node.text} waits for node {error.args[0]}, which is not there; add it") from None


def _message(
    rank: int,
    node: RecordedNode,
    file: str,
    count: int,
    numbers: _RecordedNumbers,
    sends: _Ends,
    receives: _Ends,
    wild: Wildcards,
) -> Op:
    sending = node.kind == SEND
    if node.peer == ANY and not sending:
        return Op(RECV, node.size, accepts=wild.accepts(rank, node, file))
    if not 0 <= node.peer < count:
        raise JobError(
            f"{file}: {node.text} {'sends to' if sending else 'receives from'} rank {node.peer}, and there are"
            f" ranks 0 to {count - 1}; add its file, or name another"
        )
    if node.peer == rank:
        raise JobError(f"{file}: {node.text} names rank {rank} itself; name another")
    source, destination = (rank, node.peer) if sending else (node.peer, rank)
    key = source, destination, node.tag
    if not wild.covers(*key):
        row = (sends if sending else receives).setdefault(key, [])
        row.append((node, file))
        turn = len(row)
    elif sending:
        turn = wild.turn(key)
    else:
        return Op(RECV, node.size, peer=node.peer, accepts=wild.accepts(rank, node, file))
    return Op(node.kind, node.size, peer=node.peer, number=numbers.message((*key, turn)))


def _check_group(rank: int, node: RecordedNode, file: str, group: tuple[int, ...], count: int) -> None:
    missing = [one for one in group if not 0 <= one < count]
    if missing:
        raise JobError(
            f"{file}: {node.text} needs rank {missing[0]}, and there are ranks 0 to {count - 1}; add its file"
        )
    if rank not in group:
        raise JobError(f"{file}: {node.text} is a collective of a group without rank {rank}; correct the group")


def _check_pairs(sends: _Ends, receives: _Ends) -> None:
    for key in dict.fromkeys([*sends, *receives]):
        sent, got = sends.get(key, []), receives.get(key, [])
        source, destination, tag = key
        if len(sent) > len(got):
            node, file = sent[len(got)]
            raise JobError(
                f"{file}: {node.text} sends to rank {destination} with tag {tag}, which never receives"
                " it; add a receive"
            )
        if len(got) > len(sent):
            node, file = got[len(sent)]
            raise JobError(
                f"{file}: {node.text} receives from rank {source} with tag {tag}, which never sends it; add a send"
            )
        for (one, _), (other, file) in zip(sent, got, strict=True):
            if one.size != other.size and other.size:
                raise JobError(
                    f"{file}: {other.text} receives {other.size} bytes and rank {source} sends {one.size};"
                    " make both alike"
                )


def _check_groups(members: dict[tuple[int, ...], dict[int, int]], ranks: Sequence[RecordedRank]) -> None:
    for group, turns in members.items():
        most = max(turns.values())
        for rank in group:
            if turns.get(rank, 0) < most:
                raise JobError(
                    f"{ranks[rank].file}: rank {rank} takes part in {turns.get(rank, 0)} collectives of its group,"
                    f" others in {most}; add the missing ones"
                )
