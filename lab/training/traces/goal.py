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
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from mrclab.hosts.workloads.schedules import COMPUTE, RECV, SEND
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import ANY, MAX_NODES, RecordedNode, RecordedRank

MAGIC: Final = 4223
MAX_RANKS: Final = 1 << 17
_ANY: Final = 0xFFFFFFFF
_HEAD = struct.Struct("<QIBB")
_NODE = struct.Struct("<IBIQIBBIIII")
_KINDS = {1: SEND, 2: RECV, 3: COMPUTE}
_Wait: TypeAlias = "tuple[int, int, bool]"  # an operation's place, that of what it waits for, False: for its end

_OP = re.compile(
    r"(?:(?P<label>[A-Za-z]\w*)\s*:\s*)?(?:"
    r"calc\s+(?P<calc>\d{1,20})|(?P<way>send|recv)\s+(?P<size>\d{1,20})\s*b\s+(?:to|from)\s+(?P<peer>-1|\d{1,9})"
    r"(?:\s+tag\s+(?P<tag>-1|\d{1,20}))?)(?:\s+cpu\s+(?P<cpu>\d{1,9}))?(?:\s+nic\s+(?P<nic>\d{1,9}))?",
    re.ASCII,
)
_WAIT = re.compile(r"(?P<label>[A-Za-z]\w*)\s+(?P<how>i?requires)\s+(?P<other>[A-Za-z]\w*)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class _Operation(NamedTuple):
    """An operation of either form. `size`: bytes, of a computation units of `calc`."""

    text: str
    kind: int
    size: int
    peer: int = 0
    tag: int = 0
    cpu: int = 0


def read(data: bytes, name: str, cycle: float) -> list[RecordedRank]:
    """Return the ranks of either form; a unit of `calc` takes `cycle` seconds. JobError names line or node."""
    if len(data) >= _HEAD.size and _HEAD.unpack_from(data)[0] == MAGIC:
        return _read_binary(data, name, cycle)
    try:
        return _read_text(data.decode("utf-8"), name, cycle)
    except UnicodeDecodeError:
        raise JobError(f"{name}: this is neither a GOAL text nor its binary form; name another file") from None


# --- text -------------------------------------------------------------------------------------------------------------


def _read_text(text: str, name: str, cycle: float) -> list[RecordedRank]:
    count: int | None = None
    ranks: dict[int, RecordedRank] = {}
    block: list[tuple[int, str]] | None = None  # lines of a rank
    rank = 0
    left = MAX_NODES
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    for line, words in enumerate(text.split("\n"), 1):
        statement = words.strip()
        if not statement:
            continue
        where = f"{name}:{line}"
        if block is None and statement.startswith("num_ranks"):
            count = _ranks(statement.removeprefix("num_ranks").strip(), where)
        elif block is None:
            match = re.fullmatch(r"rank\s+(\d{1,9})\s*\{", statement)
            if match is None:
                raise JobError(f"{where}: {statement[:40]!r} does not begin a rank; write, for example, rank 0 {{")
            rank, block = int(match[1]), []
            if rank in ranks:
                raise JobError(f"{where}: rank {rank} is defined already; give every rank one block")
        elif statement == "}":
            ranks[rank] = _text_rank(rank, block, name, cycle, left)
            left -= len(ranks[rank].nodes)
            block = None
        else:
            block.append((line, statement))
    if block is not None:
        raise JobError(f"{name}: rank {rank} has no closing bracket; end it with }}")
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


def _text_rank(rank: int, lines: Iterable[tuple[int, str]], name: str, cycle: float, most: int) -> RecordedRank:
    labels: dict[str, int] = {}
    operations: list[_Operation] = []
    named_waits: list[tuple[int, re.Match[str]]] = []
    for line, statement in lines:
        where = f"{name}:{line}"
        if wait := _WAIT.fullmatch(statement):
            named_waits.append((line, wait))
            continue
        match = _OP.fullmatch(statement)
        if match is None:
            raise JobError(
                f"{where}: {statement[:40]!r} is not an operation; write, for example, l1: send 64b to 1 tag 0"
            )
        label = match["label"]
        if label in labels:
            raise JobError(f"{where}: {label} labels two operations; give each its own")
        if len(operations) >= most:
            raise _too_many(where)
        if label:
            labels[label] = len(operations)
        operations.append(_operation(match, f"{label or 'operation'} of rank {rank} (line {line})"))
    waits: list[_Wait] = []
    for line, wait in named_waits:
        for label in (wait["label"], wait["other"]):
            if label not in labels:
                raise JobError(f"{name}:{line}: {label} labels nothing in rank {rank}; correct the label")
        waits.append((labels[wait["label"]], labels[wait["other"]], wait["how"] == "irequires"))
    return _recorded(name, operations, waits, cycle)


def _operation(match: re.Match[str], text: str) -> _Operation:
    if match["calc"]:
        return _Operation(text, COMPUTE, int(match["calc"]), cpu=int(match["cpu"] or 0))
    kind = SEND if match["way"] == "send" else RECV
    return _Operation(text, kind, int(match["size"]), int(match["peer"]), int(match["tag"] or 0))


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
    waiting = struct.unpack_from(f"<{(len(part) - behind) // 4}I", part, behind)
    operations: list[_Operation] = []
    waits: list[_Wait] = []
    for key in range(nodes):
        _, kind, peer, size, tag, cpu, _, *lists = _NODE.unpack_from(part, first + _NODE.size * key)
        for count, begin, begins in ((*lists[:2], False), (*lists[2:], True)):
            if count and begin + count > len(waiting):
                raise JobError(f"{name}: node {key} of rank {rank} names what lies outside the file; write it again")
            waits += ((place, key, begins) for place in waiting[begin : begin + count])
        text = f"node {key} of rank {rank}"
        if kind not in _KINDS:
            raise JobError(f"{name}: {text} is of unknown type {kind}; 1 sends, 2 receives, 3 calculates")
        other, label = (ANY if number == _ANY else number for number in (peer, tag))
        operations.append(_Operation(text, _KINDS[kind], size, other, label, cpu))
    return _recorded(name, operations, waits, cycle)


# --- both -------------------------------------------------------------------------------------------------------------


def _recorded(file: str, operations: Iterable[_Operation], waits: Iterable[_Wait], cycle: float) -> RecordedRank:
    ended, begun = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for place, other, begins in waits:
        (begun if begins else ended)[place].append(other)
    made = RecordedRank(file)
    for key, (text, kind, size, peer, tag, cpu) in enumerate(operations):
        after, begun_after = tuple(ended.get(key, ())), tuple(begun.get(key, ()))
        if kind == COMPUTE:
            node = RecordedNode(key, text, kind, size * cycle, cpu, after=after, begun_after=begun_after)
        elif kind == SEND and ANY in {peer, tag}:
            raise JobError(f"{file}: {text} sends to any rank or with any tag; name the rank and the tag")
        else:
            node = RecordedNode(key, text, kind, 0.0, 0, peer, size, tag, after=after, begun_after=begun_after)
        made.nodes.append(node)
    return made


def _too_many(where: str) -> JobError:
    return JobError(f"{where}: a schedule has at most {MAX_NODES} operations; this one has more")
