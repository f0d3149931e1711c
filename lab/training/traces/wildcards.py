"""Receives from any rank or with any tag: the messages that each may take, known before the run.

Which of them it takes is decided in the run, by arrival. An exact receive that competes with such a one for a message
is decided there, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from mrclab.hosts.workloads.schedules import RECV, SEND
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import ANY, RecordedNode, RecordedRank

_Class = tuple[int, int]  # source and tag of messages to one rank; ANY in either: of a receive's pattern


class Wildcards:
    """Receives of a job that accept several messages. `number(source, destination, tag, k)` names the k-th message."""

    def __init__(self, ranks: Sequence[RecordedRank], number: Callable[[tuple[int, int, int, int]], int]) -> None:
        self._ranks = ranks
        self._number = number
        self._patterns: dict[int, set[_Class]] = {}  # of the wildcards of a rank
        self._sent: dict[int, Counter[_Class]] = {}  # to a rank that has some
        self._accepted: dict[tuple[int, _Class], frozenset[int]] = {}
        for rank, recorded in enumerate(ranks):
            for node in recorded.nodes:
                if node.kind == RECV and ANY in {node.peer, node.tag}:
                    self._patterns.setdefault(rank, set()).add((node.peer, node.tag))
        for rank, recorded in enumerate(ranks) if self._patterns else ():
            for node in recorded.nodes:
                if node.kind == SEND and node.peer in self._patterns:
                    self._sent.setdefault(node.peer, Counter())[rank, node.tag] += 1

    def covers(self, source: int, destination: int, tag: int) -> bool:
        """Return True if a wildcard of a rank competes for the messages of a source and tag, or is meant itself."""
        return any(_fits(pattern, (source, tag)) for pattern in self._patterns.get(destination, ()))

    def accepts(self, rank: int, node: RecordedNode) -> frozenset[int]:
        """Return the numbers of the messages that a receive accepts; JobError if there is no such message."""
        pattern = node.peer, node.tag
        found = self._accepted.get((rank, pattern))
        if found is None:
            counts = self._sent.get(rank, Counter())
            found = self._accepted[rank, pattern] = frozenset(
                self._number((source, rank, tag, k))
                for (source, tag), count in counts.items()
                if _fits(pattern, (source, tag))
                for k in range(1, count + 1)
            )
        if not found:
            what = f"receives {_text(pattern)}, which no rank sends to it; add a send"
            raise JobError(f"{self._ranks[rank].file}: {node.text} {what}")
        return found

    def check(self) -> None:
        """Raise JobError where a rank receives another number of messages than it is sent."""
        for rank in self._patterns:
            self._check(rank)

    def _check(self, rank: int) -> None:
        file = self._ranks[rank].file
        nodes = [node for node in self._ranks[rank].nodes if node.kind == RECV]
        competing = [node for node in nodes if self.covers(node.peer, rank, node.tag)]
        counts = Counter((node.peer, node.tag) for node in competing)
        for node in competing:
            sent = len(self.accepts(rank, node))
            if (received := counts[node.peer, node.tag]) > sent:
                text = _text((node.peer, node.tag))
                raise JobError(
                    f"{file}: rank {rank} has {received} receives like that of {node.text}, {text}, and is sent {sent}"
                    " such messages; add sends"
                )
        sent = sum(count for (source, tag), count in self._sent[rank].items() if self.covers(source, rank, tag))
        if sent != len(competing):
            raise JobError(
                f"{file}: rank {rank} is sent {sent} messages that its receives from any rank or with any tag accept,"
                f" and has {len(competing)} receives for them; make both alike"
            )


def _fits(pattern: _Class, one: _Class) -> bool:
    """Return True if a message fits a pattern, or a narrower pattern a wider one."""
    return pattern[0] in {ANY, one[0]} and pattern[1] in {ANY, one[1]}


def _text(pattern: _Class) -> str:
    source = "any rank" if pattern[0] == ANY else f"rank {pattern[0]}"
    return f"from {source} with {'any tag' if pattern[1] == ANY else f'tag {pattern[1]}'}"
