"""Memory that a program shares with the agent: completion rings and the rings of a queue pair.

Each counter has one writer. Values that the program writes are read once and checked against the ring's size.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import threading
from typing import TYPE_CHECKING, Final

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.rdma.completion import CompletionQueue, WorkCompletion
from mrclab.hosts.rdma.errors import VerbsError

if TYPE_CHECKING:
    from mrclab.hosts.agent.provider.qp import ProgramQp

_F_GET_SEALS: Final = 1034
_F_SEAL_SHRINK: Final = 2
FENCE = threading.RLock()  # acquiring a lock is a full memory barrier; Python has no other


def map_shared(descriptor: int, size: int) -> mmap.mmap:
    """Map memory shared by a program; EINVAL unless it has the right size and can never shrink."""
    try:
        seals = fcntl.fcntl(descriptor, _F_GET_SEALS)
        if os.fstat(descriptor).st_size != size or not seals & _F_SEAL_SHRINK:
            raise VerbsError("EINVAL", f"shared memory must have {size} bytes and be sealed against shrinking")
        return mmap.mmap(descriptor, size)
    except (OSError, ValueError) as error:
        raise VerbsError("EINVAL", f"shared memory cannot be mapped: {error}") from None


def counters(ring: mmap.mmap) -> memoryview[int]:
    """Return shared memory as 32-bit words, a multiple of four bytes; release it before the memory is closed.

    An item is stored in one piece. `Struct.pack_into` does not: it zeroes the place before it writes there, and a
    program that reads in between sees a counter of 0.
    """
    return memoryview(ring).cast("I")


def power_of_two(number: int, most: int, what: str) -> int:
    """Return the number of slots if a ring can have it."""
    if not 1 <= number <= most or number & (number - 1):
        raise VerbsError("EINVAL", f"a ring of {number} {what}: give a power of two up to {most}")
    return number


class Channel:
    """A completion channel: the end of a pipe that names the queues with new completions."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor

    def notify(self, handle: int) -> None:
        """Notify the program of a queue. If it never reads its channel, only the notification is lost."""
        with contextlib.suppress(OSError):
            os.write(self.descriptor, wire.U64.pack(handle))

    def close(self) -> None:
        """Close the channel, which the program's end notices."""
        os.close(self.descriptor)


class SharedQueue(CompletionQueue):
    """A completion queue with its entries in the program's memory. `qps` are the program's, by number."""

    def __init__(
        self, number: int, entries: int, descriptor: int, channel: Channel | None, qps: dict[int, ProgramQp]
    ) -> None:
        super().__init__(number, entries)
        self.handle = 0
        self.channel = channel
        self._ring = map_shared(descriptor, wire.CQ_ENTRIES + entries * wire.CQE.size)
        self._counters = counters(self._ring)
        self._mask = entries - 1
        self._tail = 0
        self._qps = qps

    def push(self, completion: WorkCompletion) -> bool:
        """Add an entry unless the request was unsignalled and successful; return False if the ring is full."""
        entry = self._qps[completion.qp].queue_entry(completion)
        return entry is None or self.put(entry, solicited=completion.opcode.startswith("RECV"))

    def put(self, entry: bytes, solicited: bool) -> bool:
        """Write an entry, and notify the program if the queue is armed; return False if the ring is full."""
        counters = self._counters
        if (self._tail - counters[wire.CQ_HEAD]) & 0xFFFFFFFF > self._mask:
            self.overflowed = True
            counters[wire.CQ_OVERFLOW] = 1
            return False
        at = wire.CQ_ENTRIES + (self._tail & self._mask) * wire.CQE.size
        self._ring[at : at + wire.CQE.size] = entry
        self._tail = self._tail + 1 & 0xFFFFFFFF
        counters[wire.CQ_TAIL] = self._tail
        if self.channel is not None:
            with FENCE:  # the entry must be visible before the armed flag is read
                armed = counters[wire.CQ_ARMED]
            if armed == 1 or (armed and solicited):
                counters[wire.CQ_ARMED] = 0
                self.channel.notify(self.handle)
        return True

    def close(self) -> None:
        """Unmap the memory shared with the program."""
        self._counters.release()
        self._ring.close()


class _RequestRing:
    """Agent's end of one ring of a queue pair: `tail` is the place of the program's counter among the words."""

    def __init__(self, name: str, words: memoryview[int], tail: int, slots: int) -> None:
        self._name, self._words, self._tail, self._mask = name, words, tail, slots - 1
        self._taken = self._finished = 0

    def waiting(self) -> int:
        """Entries posted and not taken; EINVAL for more than the ring has."""
        waiting = self._words[self._tail] - self._taken & 0xFFFFFFFF
        if waiting > self._mask + 1:
            raise VerbsError("EINVAL", f"the {self._name} ring counts {waiting} requests in its {self._mask + 1} slots")
        return waiting

    @property
    def slot(self) -> int:
        """Number of the next entry's slot."""
        return self._taken & self._mask

    def take(self) -> None:
        """Take the next entry."""
        self._taken = self._taken + 1 & 0xFFFFFFFF

    def count_finished(self) -> int:
        """Count a finished entry and return the total, which frees slots of the ring."""
        self._finished = self._finished + 1 & 0xFFFFFFFF
        return self._finished

    def drop(self) -> None:
        """Discard all entries."""
        self._taken = self._finished = self._words[self._tail]


class QpRings:
    """Send and receive ring of one queue pair."""

    def __init__(self, descriptor: int, sends: int, receives: int) -> None:
        self._receives_at = wire.QP_SLOTS + sends * wire.SEND.size
        self._memory = map_shared(descriptor, self._receives_at + receives * wire.RECV.size)
        self._words = counters(self._memory)
        self.sends = _RequestRing("send", self._words, wire.QP_SQ_TAIL, sends)
        self.receives = _RequestRing("receive", self._words, wire.QP_RQ_TAIL, receives)

    def set_state(self, state: wire.IbvQpState) -> None:
        """Publish the QP's state to the program."""
        self._words[wire.QP_STATE] = state

    def next_send(self) -> bytes:
        """Return a copy of the next request, so that it cannot change after it was checked."""
        at = wire.QP_SLOTS + self.sends.slot * wire.SEND.size
        return self._memory[at : at + wire.SEND.size]

    def take_receive(self) -> int:
        """Take the next receive and return its wr_id."""
        at = self._receives_at + self.receives.slot * wire.RECV.size
        self.receives.take()
        return int(wire.RECV.unpack_from(self._memory, at)[0])

    def drop(self) -> None:
        """Forget all posted requests and receives."""
        self.sends.drop()
        self.receives.drop()

    def close(self) -> None:
        """Unmap the memory shared with the program."""
        self._words.release()
        self._memory.close()
