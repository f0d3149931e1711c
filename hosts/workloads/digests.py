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


class _Both:
    """Digest of the bytes that both ends have, and the views of those that only the sender has yet."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.ahead: deque[memoryview] = deque()
        self.equal = True


class SentDigest:
    """The sender's digest. Sent bytes must not change before they have arrived."""

    def __init__(self, both: _Both) -> None:
        self._both = both

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""
        if self._both.equal:
            self._both.ahead.append(data)
        else:
            self._both.hash.update(data)

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""
        made = self._both.hash.copy()
        for data in self._both.ahead:
            made.update(data)
        return made.digest()


class ReceivedDigest:
    """The receiver's digest."""

    def __init__(self, both: _Both) -> None:
        self._both = both
        self._own = both.hash  # another one from the first difference on

    def update(self, data: memoryview, /) -> None:
        """Take in more bytes."""
        both = self._both
        if both.equal:
            if both.ahead and both.ahead[0].tobytes() == data.tobytes():  # views themselves are compared byte by byte
                both.hash.update(both.ahead.popleft())
                return
            both.equal, self._own = False, both.hash.copy()
            while both.ahead:
                both.hash.update(both.ahead.popleft())
        self._own.update(data)

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""
        return self._own.digest()


class SharedDigests:
    """SharedDigests of both ends of a flow, by its name, if they share a process."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], tuple[str, list[_Both]]] = {}  # role of the first one

    def digests(self, workload: str, flow: str, role: str, qps: int) -> list[RunningDigest]:
        """Return the digests of an end that sends ("send") or receives ("recv"), one for each QP."""
        first, met = self._waiting.pop((workload, flow), (role, []))
        if first == role:
            met = [_Both() for _ in range(qps)]
            self._waiting[workload, flow] = role, met
        return [SentDigest(both) if role == "send" else ReceivedDigest(both) for both in met]
