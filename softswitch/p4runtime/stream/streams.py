"""The sending half of one StreamChannel: a queue between the producers of messages and the stream's own thread."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.stream.notifications import Lazy

MAX_WAITING = 4096  # events; a controller that reads slower than they come loses the newest


class StreamChannel:
    """One controller's stream. `send`, `offer` and `close` may be called from any thread and never block."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[p4r.StreamMessageResponse | Lazy | P4RuntimeError | None] = SimpleQueue()
        self._is_closing = False
        self.dropped = 0  # events that found the queue full

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a response. A controller that sends requests without reading loses its stream."""
        if self._queue.qsize() < 2 * MAX_WAITING:
            self._queue.put(message)
        elif not self._is_closing:
            self.close(P4RuntimeError(Code.RESOURCE_EXHAUSTED, "Too many answers are waiting to be read"))

    def offer(self, make: Lazy) -> None:
        """Queue an event, unless too many are waiting. `make` is called in the stream's thread."""
        if self._queue.qsize() >= MAX_WAITING:
            self.dropped += 1
        else:
            self._queue.put(make)

    def close(self, error: P4RuntimeError | None = None) -> None:
        """End the stream after the queued messages, with `error` or normally."""
        self._is_closing = True
        self._queue.put(error)

    def messages(self) -> Iterator[p4r.StreamMessageResponse]:
        """Yield queued messages until the stream is closed; raise the error it was closed with."""
        while True:
            item = self._queue.get()
            if item is None:
                return
            if isinstance(item, P4RuntimeError):
                raise item
            message = item if isinstance(item, p4r.StreamMessageResponse) else item()
            if message is not None:
                yield message
