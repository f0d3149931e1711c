"""Asynchronous events of one host (`ibv_get_async_event`): bounded queue, history, one subscriber."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_MAX_QUEUED: Final = 1024  # events; the oldest are dropped


def discard_record(_record: dict[str, Any]) -> None:
    """Log of a host without a history: the record is lost."""


class AsyncEvents:
    """Asynchronous events. `log` appends a history record; `subscriber` is called with each event.

    QPs record their states and work requests only if `logs_states` is set, transitions to ERROR always.
    """

    __slots__ = ("_queue", "log", "logs_states", "subscriber")

    def __init__(self, log: Callable[[dict[str, Any]], object]) -> None:
        self.log = log
        self.logs_states = log is not discard_record
        self.subscriber: Callable[[dict[str, Any]], None] | None = None
        self._queue: list[dict[str, Any]] = []

    def report(self, event: dict[str, Any]) -> None:
        """Queue an event, log it and notify the subscriber."""
        if len(self._queue) >= _MAX_QUEUED:
            del self._queue[0]
        self._queue.append(event)
        self.log({"kind": "async", **event})
        if self.subscriber is not None:
            self.subscriber(event)

    def poll(self) -> list[dict[str, Any]]:
        """Return all events so far and forget them."""
        events, self._queue = self._queue, []
        return events
