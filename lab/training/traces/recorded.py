"""A recorded job as any format gives it, and the graph that it becomes: every send finds its receive, or is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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

_Group = tuple[int, ...]
_Ends = dict[tuple[int, int, int], list[RecordedNode]]  # by source, destination and tag


def job(ranks: Sequence[RecordedRank], algorithm: str) -> TrainingJob:
    """Return the graph of a recorded job; JobError names file and node of an error."""
    schedules = _Schedules(ranks, algorithm)
    made = [schedules.of_rank(rank) for rank in range(len(ranks))]
    schedules.check()
    deadlocks.check(ranks, [schedule for schedule, _ in made])
    everybody = range(len(ranks))

    def program(rank: int) -> RankProgram:
        schedule, groups = made[rank]
        return RankProgram(schedule, everybody, groups, rank=rank)

    return TrainingJob(len(ranks), max(1, schedules.numbers), program)


class _Schedules:
    """Schedules of all ranks, made one after the other; `numbers` is how many their messages use.

    The k-th send from a rank to another with a tag has the number of the k-th such receive.
    """

    def __init__(self, ranks: Sequence[RecordedRank], algorithm: str) -> None:
        self.numbers = 0
        self._ranks = ranks
        self._algorithm = algorithm
        self._everybody = tuple(range(len(ranks)))
        self._messages: dict[tuple[int, int, int, int], int] = {}
        self._ends: dict[int, _Ends] = {SEND: {}, RECV: {}}
        self._turns: dict[_Group, Counter[int]] = {}  # collectives of a group's ranks so far
        self._collectives: dict[tuple[_Group, int], tuple[int, RecordedNode, str]] = {}
        self._wild = Wildcards(ranks, self._message_number)

    def of_rank(self, rank: int) -> tuple[Schedule, tuple[tuple[Sequence[int], int], ...]]:
        """Return the schedule of a rank and the groups of its collectives, with its place in each."""
        builder = ScheduleBuilder()
        places: dict[int, int] = {}
        groups: dict[_Group, int] = {}
        nodes = self._ranks[rank].nodes
        for node in nodes:
            if node.key in places:
                raise self._error(rank, node, "has an id that another node has; give every node its own")
            if node.kind in {SEND, RECV}:
                op = self._message(rank, node)
            elif node.kind == COLLECTIVE:
                op = self._collective(rank, node, groups)
            else:
                op = Op(COMPUTE, seconds=node.seconds, unit=node.unit)
            places[node.key] = builder.add(op)
        for node in nodes:
            try:
                after, begun_after = ([places[key] for key in keys] for keys in (node.after, node.begun_after))
            except KeyError as error:
                missing = f"waits for node {error.args[0]}, which is not there; add it"
                raise self._error(rank, node, missing) from None
            builder.wait(places[node.key], after, begun_after)
        return builder.schedule(), tuple((group, group.index(rank)) for group in groups)

    def _error(self, rank: int, node: RecordedNode, text: str) -> JobError:
        return JobError(f"{self._ranks[rank].file}: {node.text} {text}")

    def _message_number(self, key: tuple[int, int, int, int]) -> int:
        """Return the number of the message (source, destination, tag, k)."""
        if key not in self._messages:
            self._messages[key] = self.numbers
            self.numbers += 1
        return self._messages[key]

    def _message(self, rank: int, node: RecordedNode) -> Op:
        count, sending = len(self._ranks), node.kind == SEND
        if node.peer == ANY and not sending:
            return Op(RECV, node.size, accepts=self._wild.accepts(rank, node))
        if not 0 <= node.peer < count:
            raise self._error(
                rank, node, f"{'sends to' if sending else 'receives from'} rank {node.peer}, and there are"
                f" ranks 0 to {count - 1}; add its file, or name another",
            )  # fmt: skip
        if node.peer == rank:
            raise self._error(rank, node, f"names rank {rank} itself; name another")
        source, destination = (rank, node.peer) if sending else (node.peer, rank)
        key = source, destination, node.tag
        if not sending and self._wild.covers(*key):
            return Op(RECV, node.size, peer=node.peer, accepts=self._wild.accepts(rank, node))
        ends = self._ends[node.kind].setdefault(key, [])
        ends.append(node)
        return Op(node.kind, node.size, peer=node.peer, number=self._message_number((*key, len(ends))))

    def _collective(self, rank: int, node: RecordedNode, groups: dict[_Group, int]) -> Op:
        group, count = node.group or self._everybody, len(self._ranks)
        missing = [one for one in group if not 0 <= one < count]
        if missing:
            lacks = f"needs rank {missing[0]}, and there are ranks 0 to {count - 1}; add its file"
            raise self._error(rank, node, lacks)
        if rank not in group:
            raise self._error(rank, node, f"is a collective of a group without rank {rank}; correct the group")
        if len(set(group)) < len(group):
            twice = Counter(group).most_common(1)[0][0]
            text = f"is a collective of a group that names rank {twice} twice; correct the group"
            raise self._error(rank, node, text)
        what = Collective(node.collective, self._algorithm, node.size)
        turns = self._turns.setdefault(group, Counter())
        turns[rank] += 1
        turn = group, turns[rank]
        if turn not in self._collectives:
            self._collectives[turn] = self.numbers, node, self._ranks[rank].file
            self.numbers += span(what, len(group))
        number, first, file = self._collectives[turn]
        if (first.collective, first.size) != (node.collective, node.size):
            raise self._error(
                rank, node, f"is {node.collective} of {node.size} bytes, where {file} has {first.collective} of"
                f" {first.size} in {first.text}; all ranks of a group do the same in one order",
            )  # fmt: skip
        return Op(COLLECTIVE, peer=groups.setdefault(group, len(groups)), number=number, collective=what)

    def check(self) -> None:
        """Raise JobError for a message without its other end, and for a collective in which a rank is missing."""
        self._wild.check()
        sends, receives = self._ends[SEND], self._ends[RECV]
        for key in dict.fromkeys([*sends, *receives]):
            if not self._wild.covers(*key):
                self._check_pairs(key, sends.get(key, []), receives.get(key, []))
        for group, turns in self._turns.items():
            most = max(turns.values())
            for rank in group:
                if turns[rank] < most:
                    raise JobError(
                        f"{self._ranks[rank].file}: rank {rank} takes part in {turns[rank]} collectives of its group,"
                        f" others in {most}; add the missing ones"
                    )

    def _check_pairs(self, key: tuple[int, int, int], sent: list[RecordedNode], received: list[RecordedNode]) -> None:
        source, destination, tag = key
        if len(sent) > len(received):
            text = f"sends to rank {destination} with tag {tag}, which never receives it; add a receive"
            raise self._error(source, sent[len(received)], text)
        if len(received) > len(sent):
            text = f"receives from rank {source} with tag {tag}, which never sends it; add a send"
            raise self._error(destination, received[len(sent)], text)
        for one, other in zip(sent, received, strict=True):
            if one.size != other.size and other.size:
                text = f"receives {other.size} bytes and rank {source} sends {one.size}; make both alike"
                raise self._error(destination, other, text)
