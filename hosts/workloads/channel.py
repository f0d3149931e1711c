"""Both ends of a flow: QPs used in turn, a bounded region that is reused, and a digest of every byte.

A flow sends numbered messages. A message goes whole by the QP whose turn it is, or split into one piece per QP. The
immediate is the number, which gives the place of the bytes in the receiver's region: the slot of the number modulo
their count. A sender posts into a slot only when its previous message is acknowledged; by then the receiver
has digested it, since its agent processes completions before it sends the acknowledgement.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.memory import MemoryRegion
from mrclab.hosts.rdma.verbs import Verbs
from mrclab.hosts.workloads.digests import RunningDigest

SHIFT = 4096  # most bytes by which the contents of messages are shifted against each other
_STEP = 67  # prime to SHIFT, for as many different messages
_PAGE = 4096
_SPARE_RECEIVES = 2  # receives per QP beyond those that can be outstanding

REASONS = {
    "RETRY_EXC_ERR": "Retry Counter Exceeded",
    "WR_FLUSH_ERR": "flushed, the QP is in error",
    "REM_ACCESS_ERR": "the peer refused access to its memory",
    "REM_OP_ERR": "the peer's QP is in error",
}


def content(seed: str, size: int) -> bytearray:
    """Reproducible random bytes from which messages of up to `size` bytes can be taken at any shift."""
    return bytearray(random.Random(seed).randbytes(size + SHIFT))


def shift(number: int) -> int:
    """Return the offset in `content` at which message `number` begins."""
    return number * _STEP % SHIFT


def touched(size: int) -> bytearray:
    """Return zeroed memory with all pages touched."""
    memory = bytearray(size)
    memory[::_PAGE] = bytes(len(range(0, size, _PAGE)))
    return memory


@functools.cache
def shared(size: int) -> bytearray:
    """Memory for bytes that are only counted: one buffer per size in this process."""
    return bytearray(size)


def pieces(length: int, qps: int) -> list[tuple[int, int]]:
    """Return (offset, length) of a split message, one per QP; fewer for a shorter message."""
    count = min(qps, max(1, length))
    edges = [length * place // count for place in range(count + 1)]
    return [(edges[place], edges[place + 1] - edges[place]) for place in range(count)]


@dataclass
class Slots:
    """Layout of a flow's messages in the receiver's region."""

    count: int
    size: int
    split: bool  # split every message over all QPs; else each uses the next QP in turn
    digest: bool = True  # the agents digest sent and received bytes; else files are compared afterwards

    def at(self, number: int) -> int:
        """Offset of a message in the region."""
        return number % self.count * self.size


class _ChannelEnd:
    """Common part of both ends of a flow."""

    def __init__(self, verbs: Verbs[Any], name: str, peer: str, qps: list[int], slots: Slots) -> None:
        self.digests: list[RunningDigest] = [hashlib.sha256() for _ in qps] if slots.digest else []
        """Digest of each QP's bytes, in order."""
        self.verbs = verbs
        self.name = name
        self.peer = peer
        self.qps = qps
        self.slots = slots
        self.bytes = 0  # of whole messages acknowledged, or received
        self.error = ""
        self.place = {qp: place for place, qp in enumerate(qps)}

    def infos(self) -> list[dict[str, Any]]:
        """Return the connection parameters for the peer, QP by QP."""
        return [{"qp": qp, **self.verbs.local_info(qp)} for qp in self.qps]

    def connect(self, remotes: list[dict[str, Any]], now: float) -> None:
        """Connect every QP with its counterpart."""
        for qp, remote in zip(self.qps, remotes, strict=True):
            self.verbs.connect(qp, remote, now)

    def fails(self, completion: WorkCompletion) -> bool:
        """Return True if a completion is an error; the first one is kept."""
        if completion.status == "SUCCESS":
            return False
        reason = REASONS.get(completion.status, completion.status)
        self.error = self.error or f"QP {completion.qp} to {self.peer}: {reason}"
        return True

    def sha256(self) -> str:
        """Digest of all messages so far, over those of the QPs; empty where files are compared instead."""
        if not self.slots.digest:
            return ""
        return hashlib.sha256(b"".join(digest.digest() for digest in self.digests)).hexdigest()

    def release(self, now: float) -> None:
        """Destroy the QPs."""
        for qp in self.qps:
            self.verbs.destroy_qp(qp, now)


@dataclass
class SentMessage:
    """A message in flight, or (`done` is set) acknowledged."""

    number: int
    posted: float
    length: int
    left: int  # pieces without completion
    done: float = 0.0


class ChannelSender(_ChannelEnd):
    """The sending end. Offsets of `post` are in `memory`."""

    def __init__(
        self, verbs: Verbs[Any], name: str, peer: str, qps: list[int], slots: Slots, memory: MemoryRegion
    ) -> None:
        super().__init__(verbs, name, peer, qps, slots)
        self._memory = memory
        self._remote_va = self._rkey = 0
        self._posted: dict[int, SentMessage] = {}
        self._order: deque[int] = deque()  # numbers in flight, oldest first; finished ones are dropped later

    def aim(self, region: dict[str, int]) -> None:
        """Set the place of the receiver's region."""
        self._remote_va, self._rkey = region["va"], region["rkey"]

    @property
    def outstanding(self) -> int:
        """Messages in flight."""
        return len(self._posted)

    def oldest(self) -> int | None:
        """Smallest number in flight."""
        while self._order and self._order[0] not in self._posted:
            self._order.popleft()
        return self._order[0] if self._order else None

    def may_post(self, number: int) -> bool:
        """Return True if the slot of a message is free again."""
        oldest = self.oldest()
        return oldest is None or number < oldest + self.slots.count

    def post(self, number: int, length: int, offset: int, now: float) -> None:
        """Send `length` bytes at `offset` of the memory as message `number`."""
        source = self._memory
        parts = pieces(length, len(self.qps)) if self.slots.split else [(0, length)]
        first = 0 if self.slots.split else number % len(self.qps)
        self._posted[number] = SentMessage(number, now, length, len(parts))
        self._order.append(number)
        target = self._remote_va + self.slots.at(number)
        for place, (begin, size) in enumerate(parts, first):
            if self.slots.digest:
                self.digests[place].update(source.view[offset + begin : offset + begin + size])
            self.verbs.post_send(
                self.qps[place], number, "RDMA_WRITE_WITH_IMM", source.lkey, offset + begin, size,
                target + begin, self._rkey, number, now,
            )  # fmt: skip

    def completed(self, completion: WorkCompletion) -> SentMessage | None:
        """Take in a completion; return the message if it is now whole. None also after an error, see `error`."""
        posted = self._posted.get(completion.wr_id)
        if self.fails(completion) or posted is None:
            return None
        posted.left -= 1
        if posted.left:
            return None
        del self._posted[posted.number]
        self.bytes += posted.length
        posted.done = completion.t
        return posted

    def acked_bytes(self) -> int:
        """Acknowledged bytes so far, parts of messages included."""
        return sum(int(self.verbs.qp(qp).stats.acked_bytes) for qp in self.qps)


class Receiver(_ChannelEnd):
    """The receiving end. `length_of` gives the length of a split message by its number; None: each QP has a piece."""

    def __init__(
        self,
        verbs: Verbs[Any],
        name: str,
        peer: str,
        qps: list[int],
        slots: Slots,
        memory: MemoryRegion,
        length_of: Callable[[int], int] | None,
    ) -> None:
        super().__init__(verbs, name, peer, qps, slots)
        self.memory = memory
        self._length_of = length_of
        self._missing: dict[int, int] = {}  # missing pieces by message, of partial messages

    def info(self) -> dict[str, int]:
        """Return the address to which senders write."""
        return {"va": self.memory.va, "rkey": self.memory.rkey, "length": self.memory.length}

    def accept(self, now: float, count: int = 0) -> None:
        """Post receives for `count` messages in flight at once (0: one for each slot); QPs must be connected."""
        count = count or self.slots.count
        each = count if self.slots.split else -(-count // len(self.qps))
        for qp in self.qps:
            for _ in range(each + _SPARE_RECEIVES):
                self.verbs.post_recv(qp, 0, now)

    def arrived(self, completion: WorkCompletion, now: float) -> int | None:
        """Take in a completion; return the number of a message that is now whole. None also after an error."""
        if self.fails(completion):
            return None
        number, size, slots = completion.imm, completion.byte_len, self.slots
        assert number is not None
        self.verbs.post_recv(completion.qp, 0, now)
        self.bytes += size
        begin, count = 0, 1
        if slots.split:
            length = self._length_of(number) if self._length_of is not None else len(self.qps)
            count = min(len(self.qps), max(1, length))
            begin = length * self.place[completion.qp] // count
        if slots.digest:
            begin += slots.at(number)
            self.digests[self.place[completion.qp]].update(self.memory.view[begin : begin + size])
        if count > 1:
            left = self._missing.get(number, count) - 1
            if left:
                self._missing[number] = left
                return None
            del self._missing[number]
        return number

    def view(self, number: int) -> memoryview:
        """Return the bytes of a split message that has arrived."""
        assert self._length_of is not None
        begin = self.slots.at(number)
        return self.memory.view[begin : begin + self._length_of(number)]
