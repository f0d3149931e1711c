"""SHA-256 of the bytes sent and received by a flow, computed once where both ends share a process.

Bytes that arrived are compared with those that were sent, which is some twenty times as fast as to digest them. While
they are equal one digest serves both ends; from the first difference on each end has its own.
"""

import hashlib
from collections import deque
from typing import Protocol


class RunningDigest(Protocol):
    """A digest in the making, as hashlib has them."""

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""


class _Common:
    """Digest of the bytes that both ends have, and views of bytes sent and not received yet."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.unreceived: deque[memoryview] = deque()
        self.equal = True


class SentDigest:
    """The sender's digest. Sent bytes must not change before they have arrived."""

    def __init__(self, common: _Common) -> None:
        self._common = common

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""
        if self._common.equal:
            self._common.unreceived.append(data)
        else:
            self._common.hash.update(data)

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""
        made = self._common.hash.copy()
        for data in self._common.unreceived:
            made.update(data)
        return made.digest()


class ReceivedDigest:
    """The receiver's digest."""

    def __init__(self, common: _Common) -> None:
        self._common = common
        self._own = common.hash  # another one from the first difference on

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""
        common = self._common
        if common.equal:
            # memoryviews would be compared item by item, which is slow
            if common.unreceived and common.unreceived[0].tobytes() == data.tobytes():
                common.hash.update(common.unreceived.popleft())
                return
            common.equal, self._own = False, common.hash.copy()
            while common.unreceived:
                common.hash.update(common.unreceived.popleft())
        self._own.update(data)

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""
        return self._own.digest()


class SharedDigests:
    """Digests of both ends of a flow, by its name, if they share a process."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], tuple[str, list[_Common]]] = {}  # role of the first one

    def digests(self, workload: str, flow: str, role: str, qps: int) -> list[RunningDigest]:
        """Return the digests of an end that sends ("send") or receives ("recv"), one for each QP."""
        first, made = self._waiting.pop((workload, flow), (role, []))
        if first == role:
            made = [_Common() for _ in range(qps)]
            self._waiting[workload, flow] = role, made
        return [SentDigest(common) if role == "send" else ReceivedDigest(common) for common in made]
