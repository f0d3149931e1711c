"""Ring all-reduce of one host: 2(N−1) steps, each of which sends a chunk to the right once the left one's has come.

In the first N−1 steps received data is reduced into the host's own chunk, in the others it replaces it. The reduction
is XOR: as costly as an addition in bytes moved, and the result can be computed from all inputs. Two buffers take turns,
since the left neighbour may begin an iteration while the last chunks of the one before are not acknowledged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from mrclab.hosts.rdma.memory import MemoryRegion
from mrclab.hosts.workloads.channel import ChannelSender, Received, SentMessage, shift
from mrclab.hosts.workloads.schedules import chunk
from mrclab.hosts.workloads.span import Span, WorkloadBounds


class Ring(Span):
    """Drives one host's part, of rank `rank` among `count`.

    `on_iteration(number, began, ended, idle, sha256)` after each with the digest of the result, `on_done` after the
    last one or a failure. `idle`: its time is over; it continues only if its left neighbour has begun
    another. `memory` holds two buffers of `size` bytes, `source` the data that iterations begin with.
    """

    def __init__(
        self,
        sender: ChannelSender,
        memory: MemoryRegion,
        source: bytearray,
        *,
        size: int,
        rank: int,
        count: int,
        bounds: WorkloadBounds,
        on_sent: Callable[[SentMessage], None],
        on_iteration: Callable[[int, float, float, bool, str], None],
        on_done: Callable[[], None],
    ) -> None:
        super().__init__(on_done)
        self._sender = sender
        self._memory = memory
        self._source = memoryview(source)
        self._size = size
        self._rank = rank
        self._count = count
        self._steps = 2 * (count - 1)
        self._bounds = bounds
        self._on_sent = on_sent
        self._on_iteration = on_iteration
        self._iteration_began = 0.0
        self._next = 0  # step to send next, counted through all iterations
        self._arrived = 0  # steps received without a gap, counted through all iterations
        self._early: set[int] = set()  # those beyond a gap
        self._load(0)
        self._load(1)

    @staticmethod
    def length_of(step: int, size: int, rank: int, count: int) -> int:
        """Bytes that the host of a rank receives in a step, counted through all iterations."""
        return chunk(size, count, rank - 1 - step % (2 * (count - 1)))[1]

    def start(self, now: float) -> None:
        """Begin the first iteration."""
        self.began = self._iteration_began = now
        self._advance(now)

    def sent(self, message: SentMessage | None, now: float) -> None:
        """Handle a completion of the sender."""
        if message is not None:
            self._on_sent(message)
        self._advance(now)

    def received(self, message: Received | None, now: float) -> None:
        """Handle a completion of the receiver; over several QPs, steps may be reordered."""
        if message is not None:
            self._take(message)
            self._early.add(message.number)
            while self._arrived in self._early:
                self._early.remove(self._arrived)
                self._arrived += 1
        self._advance(now)

    def _take(self, message: Received) -> None:
        """Reduce received bytes into the own chunk, or copy them."""
        iteration, step = divmod(message.number, self._steps)
        begin, length = chunk(self._size, self._count, self._rank - 1 - step)
        begin += iteration % 2 * self._size
        mine = self._memory.view[begin : begin + length]
        if step < self._count - 1:
            both = int.from_bytes(mine, "little") ^ int.from_bytes(message.view, "little")
            mine[:] = both.to_bytes(length, "little")
        else:
            mine[:] = message.view

    def _advance(self, now: float) -> None:
        """Send every step whose chunk is there; end iterations whose chunks were all received and acknowledged."""
        while self.running:
            if self._sender.error:
                self._end(now)
                return
            iteration, step = divmod(self._next, self._steps)
            if iteration > 0 and step == 0 and not self._may_go_on(iteration - 1, now):
                return
            if self._next > self._arrived or not self._sender.may_post(self._next):
                return
            begin, length = chunk(self._size, self._count, self._rank - step)
            self._sender.post(self._next, length, begin + iteration % 2 * self._size, now, self._memory)
            self._next += 1

    def _may_go_on(self, iteration: int, now: float) -> bool:
        """Return True if another iteration begins after one that ended."""
        if self._idle_since is None:
            return self._finished(iteration, now)
        if self._is_next_begun():
            self._idle_since, self._iteration_began = None, now
            return True
        return False

    def _is_next_begun(self) -> bool:
        """Return True if the left neighbour is ahead of this host."""
        return self._arrived > self._next or bool(self._early)

    def _finished(self, iteration: int, now: float) -> bool:
        """End an iteration if everything was received, and everything sent was acknowledged."""
        if self._arrived < (iteration + 1) * self._steps or self._sender.outstanding:
            return False
        begin = iteration % 2 * self._size
        digest = hashlib.sha256(self._memory.view[begin : begin + self._size]).hexdigest()
        over = self._bounds.over(iteration + 1, now)
        idle = self._bounds.by_time and over and not self._is_next_begun()
        self._on_iteration(iteration, self._iteration_began, now, idle, digest)
        self._iteration_began = now
        if over and not self._bounds.by_time:
            self._end(now)
            return False
        self._load(iteration + 2)
        if idle:
            self._idle_since = now
        return not idle

    def _load(self, iteration: int) -> None:
        """Fill an iteration's buffer with its input, if it may begin."""
        if not self._bounds.may_reach(iteration):
            return
        begin = iteration % 2 * self._size
        here = shift(iteration)
        self._memory.view[begin : begin + self._size] = self._source[here : here + self._size]


def reduced(sources: Iterable[bytes | bytearray]) -> bytes:
    """Return the XOR of all hosts' inputs, of one length."""
    result, length = 0, 0
    for source in sources:
        result, length = result ^ int.from_bytes(source, "little"), len(source)
    return result.to_bytes(length, "little")


def expected(inputs: bytes, size: int, iteration: int) -> str:
    """Return the SHA-256 of an iteration's expected result on every host, given the `reduced` inputs."""
    here = shift(iteration)
    return hashlib.sha256(inputs[here : here + size]).hexdigest()
