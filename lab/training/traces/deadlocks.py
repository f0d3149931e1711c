"""Ranks of a recorded job that wait for each other, found by an execution in which no time passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from mrclab.hosts.workloads.schedules import COLLECTIVE, RECV, SEND
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import RecordedNode, RecordedRank

_MAX_NODES = 1_000_000  # nodes; of larger jobs the run's time limit tells
_Place = tuple[int, int]  # rank, and number of a node in it
_Message = tuple[int, int, int, int]  # source, destination, tag, and which of them
_Turn = tuple[tuple[int, ...], int]  # group, and which of its collectives


def check(ranks: Sequence[RecordedRank], undecided: Callable[[int, int, int], bool]) -> None:
    """Raise JobError where no order of the nodes brings all ranks to their end.

    `undecided(source, destination, tag)` is True for messages of which the run decides who takes them.
    """
    if sum(len(recorded.nodes) for recorded in ranks) <= _MAX_NODES:
        _Execution(ranks, undecided).run()


class _Execution:
    def __init__(self, ranks: Sequence[RecordedRank], undecided: Callable[[int, int, int], bool]) -> None:
        self._ranks = ranks
        self._undecided = undecided
        self._places = [{node.key: number for number, node in enumerate(one.nodes)} for one in ranks]
        self._left = [[len(node.after) + len(node.begun_after) for node in one.nodes] for one in ranks]
        self._at_end: dict[_Place, list[_Place]] = defaultdict(list)
        self._at_begin: dict[_Place, list[_Place]] = defaultdict(list)
        self._message: dict[_Place, _Message] = {}
        self._turn: dict[_Place, _Turn] = {}
        self._senders: dict[_Message, _Place] = {}
        self._members: dict[_Turn, list[_Place]] = defaultdict(list)
        self._receivers: dict[_Message, _Place] = {}  # that wait
        self._met: Counter[_Turn] = Counter()
        self._begun: set[_Place] = set()
        self._ended: set[_Place] = set()
        turns: Counter[object] = Counter()
        for place, node in self._nodes():
            for key in node.after:
                self._at_end[place[0], self._places[place[0]][key]].append(place)
            for key in node.begun_after:
                self._at_begin[place[0], self._places[place[0]][key]].append(place)
            self._number(place, node, turns)

    def _nodes(self) -> Iterator[tuple[_Place, RecordedNode]]:
        for rank, recorded in enumerate(self._ranks):
            for number, node in enumerate(recorded.nodes):
                yield (rank, number), node

    def _number(self, place: _Place, node: RecordedNode, turns: Counter[object]) -> None:
        """Note the message of a send or receive, and the turn of a collective."""
        rank = place[0]
        if node.kind == COLLECTIVE:
            group = node.group or tuple(range(len(self._ranks)))
            turns[rank, group] += 1
            turn = self._turn[place] = group, turns[rank, group]
            self._members[turn].append(place)
        elif node.kind in {SEND, RECV}:
            key = (rank, node.peer, node.tag) if node.kind == SEND else (node.peer, rank, node.tag)
            if not self._undecided(*key):
                turns[node.kind, key] += 1
                message = self._message[place] = (*key, turns[node.kind, key])
                if node.kind == SEND:
                    self._senders[message] = place

    def run(self) -> None:
        """Begin every node that can begin, until none is left that can."""
        ready = [place for place, _ in self._nodes() if not self._left[place[0]][place[1]]]
        while ready:
            place = ready.pop()
            self._begun.add(place)
            ready += self._released(self._at_begin[place])
            for one in self._ending(place):
                self._ended.add(one)
                ready += self._released(self._at_end[one])
        stuck = next((place for place, _ in self._nodes() if place not in self._ended), None)
        if stuck is not None:
            raise JobError(self._sentence(stuck))

    def _released(self, waiting: Sequence[_Place]) -> Iterator[_Place]:
        for rank, number in waiting:
            self._left[rank][number] -= 1
            if not self._left[rank][number]:
                yield rank, number

    def _ending(self, place: _Place) -> list[_Place]:
        """Return the nodes that end because this one begins: itself, its receive, or all of its collective."""
        node = self._ranks[place[0]].nodes[place[1]]
        if node.kind == COLLECTIVE:
            turn = self._turn[place]
            self._met[turn] += 1
            return self._members[turn] if self._met[turn] == len(turn[0]) else []
        message = self._message.get(place)
        if message is None or (node.kind == RECV and self._senders[message] in self._begun):
            return [place]
        if node.kind == RECV:
            self._receivers[message] = place
            return []
        receiver = self._receivers.get(message)
        return [place] if receiver is None else [place, receiver]

    def _sentence(self, place: _Place) -> str:
        """Name a node of the cycle that a node waits for."""
        seen: set[_Place] = set()
        while place not in seen:
            seen.add(place)
            place = self._awaited(place)
        while place not in self._begun:  # a receive or a collective is next
            place = self._awaited(place)
        node, file, awaited = self._ranks[place[0]].nodes[place[1]], self._ranks[place[0]].file, self._awaited(place)
        return (
            f"{file}: {node.text} waits for rank {awaited[0]}, which waits for it in turn at"
            f" {self._ranks[awaited[0]].nodes[awaited[1]].text}; break the cycle"
        )

    def _awaited(self, place: _Place) -> _Place:
        """Return a node that has to begin, or to end, before this one can."""
        rank, number = place
        node = self._ranks[rank].nodes[number]
        if place in self._begun:
            if node.kind == COLLECTIVE:
                return next(one for one in self._members[self._turn[place]] if one not in self._begun)
            return self._senders[self._message[place]]
        after = ((rank, self._places[rank][key]) for key in node.after)
        begun = ((rank, self._places[rank][key]) for key in node.begun_after)
        return next(
            one for ones, done in ((after, self._ended), (begun, self._begun)) for one in ones if one not in done
        )
