"""GOAL schedules, as LogGOPSim and ATLAHS read them: text, or its binary form by `txt2bin`.

    num_ranks 2
    rank 0 {
    l1: calc 100 cpu 0
    l2: send 1024b to 1 tag 7
    l2 requires l1
    }
    rank 1 {
    l1: recv 1024b from 0 tag 7
    }

`requires` waits for an end, `irequires` for a begin. A receive from -1 or with tag -1 takes the first message that
fits. The binary form has little-endian words without padding: magic
4223 (8 bytes), ranks (4), processors and NICs (1 each), begin and end of every rank's part counted from behind the
magic (8 each); each part has the number of nodes and of roots (4 each), the roots, the nodes (39 bytes), and the places
of those that wait (4 each).
"""

from __future__ import annotations

import re
import struct
from typing import Final

from mrclab.hosts.workloads.schedules import COMPUTE, RECV, SEND
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import ANY, MAX_NODES, RecordedNode, RecordedRank

MAGIC: Final = 4223
MAX_RANKS: Final = 1 << 17
_ANY: Final = 0xFFFFFFFF
_HEAD = struct.Struct("<QIBB")
_NODE = struct.Struct("<IBIQIBBIIII")
_KINDS = {1: SEND, 2: RECV, 3: COMPUTE}

_OP = re.compile(
    r"(?:(?P<label>[A-Za-z]\w*)\s*:\s*)?(?:"
    r"calc\s+(?P<calc>\d{1,20})|(?P<way>send|recv)\s+(?P<size>\d{1,20})\s*b\s+(?:to|from)\s+(?P<peer>-1|\d{1,9})"
    r"(?:\s+tag\s+(?P<tag>-1|\d{1,20}))?)(?:\s+cpu\s+(?P<cpu>\d{1,9}))?(?:\s+nic\s+(?P<nic>\d{1,9}))?",
    re.ASCII,
)
_WAIT = re.compile(r"(?P<label>[A-Za-z]\w*)\s+(?P<how>i?requires)\s+(?P<other>[A-Za-z]\w*)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def is_binary(data: bytes) -> bool:
    """Tell whether this is the binary form."""
    return len(data) >= _HEAD.size and _HEAD.unpack_from(data)[0] == MAGIC


def read(data: bytes, name: str, cycle: float) -> list[RecordedRank]:
    """Return the ranks of either form; a unit of `calc` takes `cycle` seconds. JobError names line or node."""
    if is_binary(data):
        return _read_binary(data, name, cycle)
    try:
        return _read_text(data.decode("utf-8"), name, cycle)
    except UnicodeDecodeError:
        raise JobError(f"{name}: this is neither a GOAL text nor its binary form; name another file") from None


# --- text -------------------------------------------------------------------------------------------------------------


def _read_text(text: str, name: str, cycle: float) -> list[RecordedRank]:
    count: int | None = None
    ranks: dict[int, RecordedRank] = {}
    rank: _TextRank | None = None
    left = MAX_NODES
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    for line, words in enumerate(text.split("\n"), 1):
        statement = words.strip()
        if not statement:
            continue
        where = f"{name}:{line}"
        if rank is None and statement.startswith("num_ranks"):
            count = _ranks(statement.removeprefix("num_ranks").strip(), where)
        elif rank is None:
            match = re.fullmatch(r"rank\s+(\d{1,9})\s*\{", statement)
            if match is None:
                raise JobError(f"{where}: {statement[:40]!r} does not begin a rank; write, for example, rank 0 {{")
            number = int(match[1])
            if number in ranks:
                raise JobError(f"{where}: rank {number} is defined already; give every rank one block")
            ranks[number] = RecordedRank(name)
            rank = _TextRank(number, ranks[number], cycle, left)
        elif statement == "}":
            left -= rank.finish()
            rank = None
        else:
            rank.take(statement, where)
    if rank is not None:
        raise JobError(f"{name}: rank {rank.number} has no closing bracket; end it with }}")
    return _complete(ranks, count, name)


def _ranks(text: str, where: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_RANKS:
        raise JobError(
            f"{where}: num_ranks {text[:20]} is not a number from 1 to {MAX_RANKS}; write, for example, num_ranks 16"
        )
    return int(text)


def _complete(ranks: dict[int, RecordedRank], count: int | None, name: str) -> list[RecordedRank]:
    if count is None:
        raise JobError(f"{name}: num_ranks is missing; begin the file with, for example, num_ranks 16")
    for rank in range(count):
        if rank not in ranks:
            raise JobError(f"{name}: rank {rank} of {count} is missing; add a block rank {rank} {{ }}")
    if len(ranks) > count:
        raise JobError(f"{name}: rank {max(ranks)} is not one of {count}, counted from 0; raise num_ranks")
    return [ranks[rank] for rank in range(count)]


class _TextRank:
    """A rank while its lines are read."""

    def __init__(self, number: int, into: RecordedRank, cycle: float, most: int) -> None:
        self.number = number
        self._into = into
        self._cycle = cycle
        self._most = most
        self._labels: dict[str, int] = {}
        self._found: list[tuple[str, re.Match[str]]] = []
        self._waits: list[tuple[str, re.Match[str]]] = []

    def take(self, statement: str, where: str) -> None:
        """Read one line."""
        if match := _WAIT.fullmatch(statement):
            self._waits.append((where, match))
            return
        match = _OP.fullmatch(statement)
        if match is None:
            raise JobError(
                f"{where}: {statement[:40]!r} is not an operation; write, for example, l1: send 64b to 1 tag 0"
            )
        if match["label"]:
            if match["label"] in self._labels:
                raise JobError(f"{where}: {match['label']} labels two operations; give each its own")
            self._labels[match["label"]] = len(self._found)
        if len(self._found) >= self._most:
            raise _too_many(where)
        self._found.append((where, match))

    def finish(self) -> int:
        """Make nodes of all lines; return how many."""
        after: dict[int, list[int]] = {}
        begun: dict[int, list[int]] = {}
        for where, wait in self._waits:
            for label in (wait["label"], wait["other"]):
                if label not in self._labels:
                    raise JobError(f"{where}: {label} labels nothing in rank {self.number}; correct the label")
            into = after if wait["how"] == "requires" else begun
            into.setdefault(self._labels[wait["label"]], []).append(self._labels[wait["other"]])
        for key, (where, match) in enumerate(self._found):
            text = f"{match['label'] or 'operation'} of rank {self.number} (line {where.rpartition(':')[2]})"
            waits = tuple(after.get(key, ())), tuple(begun.get(key, ()))
            self._into.nodes.append(self._node(key, text, match, *waits))
        return len(self._into.nodes)

    def _node(
        self, key: int, text: str, match: re.Match[str], after: tuple[int, ...], begun: tuple[int, ...]
    ) -> RecordedNode:
        if match["calc"]:
            seconds, unit = int(match["calc"]) * self._cycle, int(match["cpu"] or 0)
            return RecordedNode(key, text, COMPUTE, seconds, unit, after=after, begun_after=begun)
        kind = SEND if match["way"] == "send" else RECV
        peer, size, tag = int(match["peer"]), int(match["size"]), int(match["tag"] or 0)
        _check_send(kind, peer, tag, self._into.file, text)
        return RecordedNode(key, text, kind, peer=peer, size=size, tag=tag, after=after, begun_after=begun)


def _too_many(where: str) -> JobError:
    return JobError(f"{where}: a schedule has at most {MAX_NODES} operations; this one has more")


def _check_send(kind: int, peer: int, tag: int, file: str, text: str) -> None:
    if kind == SEND and ANY in {peer, tag}:
        raise JobError(f"{file}: {text} sends to any rank or with any tag; name the rank and the tag")


# --- binary -----------------------------------------------------------------------------------------------------------


def _read_binary(data: bytes, name: str, cycle: float) -> list[RecordedRank]:
    _, count, _, _ = _HEAD.unpack_from(data)
    body = memoryview(data)[8:]
    if not 1 <= count <= MAX_RANKS or len(body) < 6 + 16 * count:
        raise JobError(f"{name}: the file says that it has {count} ranks and is too short for them; write it again")
    found: list[RecordedRank] = []
    left = MAX_NODES
    for rank in range(count):
        begin, end = struct.unpack_from("<QQ", body, 6 + 16 * rank)
        if not begin + 8 <= end <= len(body):
            raise JobError(f"{name}: rank {rank} lies outside the file; write it again")
        found.append(_binary_rank(body[begin:end], name, rank, cycle, left))
        left -= len(found[-1].nodes)
    return found


def _binary_rank(part: memoryview, name: str, rank: int, cycle: float, most: int) -> RecordedRank:
    nodes, roots = struct.unpack_from("<II", part)
    first = 8 + 4 * roots
    behind = first + _NODE.size * nodes
    if nodes > most:
        raise _too_many(name)
    if behind > len(part):
        raise JobError(f"{name}: rank {rank} says that it has {nodes} nodes and is too short for them; write it again")
    count = (len(part) - behind) // 4
    waiting = struct.unpack_from(f"<{count}I", part, behind)
    after: dict[int, list[int]] = {}
    begun: dict[int, list[int]] = {}
    made = RecordedRank(name)
    rows = [_NODE.unpack_from(part, first + _NODE.size * key) for key in range(nodes)]
    for key, row in enumerate(rows):
        for (number, begin), into in ((row[7:9], after), (row[9:11], begun)):
            if number and begin + number > count:
                raise JobError(f"{name}: node {key} of rank {rank} names what lies outside the file; write it again")
            for other in waiting[begin : begin + number] if number else ():
                into.setdefault(other, []).append(key)
    for key, (_, kind, peer, size, tag, cpu, _, *_) in enumerate(rows):
        text = f"node {key} of rank {rank}"
        if kind not in _KINDS:
            raise JobError(f"{name}: {text} is of unknown type {kind}; 1 sends, 2 receives, 3 calculates")
        ended, started = tuple(after.get(key, ())), tuple(begun.get(key, ()))
        if kind == 3:
            node = RecordedNode(key, text, COMPUTE, size * cycle, cpu, after=ended, begun_after=started)
        else:
            other, label = ANY if peer == _ANY else peer, ANY if tag == _ANY else tag
            _check_send(_KINDS[kind], other, label, name, text)
            node = RecordedNode(
                key, text, _KINDS[kind], peer=other, size=size, tag=label, after=ended, begun_after=started
            )
        made.nodes.append(node)
    return made
