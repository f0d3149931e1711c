"""Digests: collects learn messages into lists, leaves out messages sent and not yet acknowledged (learning.cpp)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mrclab.softswitch.objects.runtime_api import DigestConfig, DigestList, NotFoundError

Message = tuple[int, ...]


@dataclass
class _List:
    """One digest: the list being filled, and lists sent but not acknowledged."""

    name: str
    config: DigestConfig | None = None
    filling: list[Message] = field(default_factory=list)
    since: float = 0.0
    next_id: int = 1
    known: dict[Message, None] = field(default_factory=dict)
    sent: dict[int, tuple[tuple[Message, ...], float]] = field(default_factory=dict)


class Digests:
    """All digests of a program. `monotonic` gives seconds."""

    def __init__(self, names: dict[int, str], monotonic: Callable[[], float]) -> None:
        self._by_id = {number: _List(name) for number, name in names.items()}
        self._by_name = {digest.name: digest for digest in self._by_id.values()}
        self._monotonic = monotonic
        self.callback: Callable[[DigestList], None] | None = None

    def _list(self, name: str) -> _List:
        digest = self._by_name.get(name)
        if digest is None:
            raise NotFoundError(f"the program has no digest {name}")
        return digest

    def enable(self, name: str, config: DigestConfig | None) -> None:
        """Start collecting, or stop."""
        digest = self._list(name)
        digest.config = config
        if config is None:
            digest.filling.clear()
            digest.known.clear()
            digest.sent.clear()

    def learn(self, number: int, message: Message) -> None:
        """Take a message from a packet; called by the generated code."""
        digest = self._by_id[number]
        config = digest.config
        if config is None:
            return
        self._expire(digest)
        if message in digest.known:
            return
        digest.known[message] = None
        if not digest.filling:
            digest.since = self._monotonic()
        digest.filling.append(message)
        if 0 < config.max_list_size <= len(digest.filling) or not config.max_timeout:
            self._send(digest)

    def _expire(self, digest: _List) -> None:
        config = digest.config
        if config is None or not digest.sent:
            return
        now = self._monotonic()
        for list_id, (_, when) in list(digest.sent.items()):
            if now - when < config.ack_timeout:
                break
            self._forget(digest, list_id)

    @staticmethod
    def _forget(digest: _List, list_id: int) -> None:
        messages, _ = digest.sent.pop(list_id, ((), 0.0))
        for message in messages:
            del digest.known[message]

    def _send(self, digest: _List) -> None:
        messages = tuple(digest.filling)
        digest.filling.clear()
        list_id, digest.next_id = digest.next_id, digest.next_id + 1
        digest.sent[list_id] = (messages, self._monotonic())
        if digest.config is not None and not digest.config.ack_timeout:
            self._forget(digest, list_id)
        if self.callback is not None:
            self.callback(DigestList(digest.name, list_id, messages, time.time_ns()))

    def ack(self, name: str, list_id: int) -> None:
        """Take an acknowledgement: the list's messages count as new again."""
        self._forget(self._list(name), list_id)

    @property
    def deadline(self) -> float | None:
        """Time at which the oldest list being filled must be sent, None if there is none."""
        times = [d.since + d.config.max_timeout for d in self._by_id.values() if d.filling and d.config is not None]
        return min(times, default=None)

    def run(self) -> None:
        """Send the lists whose time has come."""
        now = self._monotonic()
        for digest in self._by_id.values():
            if digest.filling and digest.config is not None and digest.since + digest.config.max_timeout <= now:
                self._send(digest)
