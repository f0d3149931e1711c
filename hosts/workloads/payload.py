"""Bytes that a graph's messages carry: only counted, those of rounds, or those that a ring reduces.

Messages have numbers that grow with the steps of the graph. A sender requests the place of a message's bytes, a
receiver hands over those of a whole message as soon as they are there, also before the step that needs them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from mrclab.hosts.rdma.memory import MemoryRegion
from mrclab.hosts.workloads.channel import ChannelSender, Receiver, shift
from mrclab.hosts.workloads.schedules import chunk

OUTSTANDING: Final = 64
"""Most messages of one flow in flight; others wait."""


class Payload:
    """Bytes that are counted, not kept; each QP has one of a message at least, so that receivers need no lengths."""

    def may_post(self, sender: ChannelSender, number: int) -> bool:
        """Return True if a message may be sent now."""
        return sender.outstanding < OUTSTANDING

    def place(self, sender: ChannelSender, number: int, size: int) -> tuple[int, int]:
        """Return (offset, length) of a message of `size` bytes in the sender's memory."""
        return 0, max(len(sender.qps), size)

    def take(self, receiver: Receiver, number: int) -> None:
        """Take in a message that has arrived whole."""

    def ended(self, step: int) -> str:
        """End a step; return the SHA-256 of its result, empty where there is none."""
        return ""


class RoundPayload(Payload):
    """Bytes of rounds: all messages of a round begin at the same place of the host's content."""

    def may_post(self, sender: ChannelSender, number: int) -> bool:
        """Return True: a round begins when all of the last one was acknowledged."""
        return True

    def place(self, sender: ChannelSender, number: int, size: int) -> tuple[int, int]:
        """Return (offset, length) of a round's message."""
        return shift(number), size


class RingPayload(Payload):
    """Buffers of a ring all-reduce of `count` hosts, `size` bytes each.

    In the first N−1 steps of an iteration received data is reduced into the host's own chunk, in the others it
    replaces it. The reduction is XOR: as costly as an addition in bytes moved, and the result can be computed from all
    inputs. `memory` holds two buffers that take turns, since the left neighbour may begin an iteration while the last
    chunks of the one before are not acknowledged; `source` has the inputs of all iterations.
    """

    def __init__(self, memory: MemoryRegion, source: bytearray, size: int, rank: int, count: int) -> None:
        self._memory = memory
        self._source = memoryview(source)
        self._size = size
        self._rank = rank
        self._count = count
        self._steps = 2 * (count - 1)
        self._load(0)
        self._load(1)

    def may_post(self, sender: ChannelSender, number: int) -> bool:
        """Return True if the receiver's slot is free again."""
        return sender.may_post(number)

    def place(self, sender: ChannelSender, number: int, size: int) -> tuple[int, int]:
        """Return (offset, length) of the chunk that a message carries."""
        return self._chunk(number, self._rank)

    def take(self, receiver: Receiver, number: int) -> None:
        """Reduce received bytes into the own chunk, or copy them."""
        begin, length = self._chunk(number, self._rank - 1)
        mine, came = self._memory.view[begin : begin + length], receiver.view(number)
        if number % self._steps < self._count - 1:
            both = int.from_bytes(mine, "little") ^ int.from_bytes(came, "little")
            mine[:] = both.to_bytes(length, "little")
        else:
            mine[:] = came

    def ended(self, step: int) -> str:
        """End an iteration; return the SHA-256 of its result, and load the input of the next but one."""
        begin = step % 2 * self._size
        found = hashlib.sha256(self._memory.view[begin : begin + self._size]).hexdigest()
        self._load(step + 2)
        return found

    def _chunk(self, number: int, first: int) -> tuple[int, int]:
        """(offset, length) of the chunk of a message, whose host begins an iteration with chunk `first`."""
        iteration, step = divmod(number, self._steps)
        begin, length = chunk(self._size, self._count, first - step)
        return begin + iteration % 2 * self._size, length

    def _load(self, iteration: int) -> None:
        """Fill an iteration's buffer with its input."""
        begin, here = iteration % 2 * self._size, shift(iteration)
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
