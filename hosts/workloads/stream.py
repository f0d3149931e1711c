"""Streams of messages from one host to another: bulk writes, streams, ping-pong, and traffic made of them.

The next message is posted when one completes, up to a number outstanding and at most at the given rate.
"""

from __future__ import annotations

from collections.abc import Callable

from mrclab.hosts.rdma.timers import Timers
from mrclab.hosts.workloads.channel import ChannelSender, SentMessage, shift
from mrclab.hosts.workloads.span import Span
from mrclab.hosts.workloads.specs import WorkloadSpec


class StreamSender(Span):
    """Drives one sender with messages of `message` bytes, `size` bytes in all, at the rate and depth of `spec`.

    `on_done` is called once, when the last message is acknowledged or the flow has failed.
    """

    def __init__(
        self,
        sender: ChannelSender,
        spec: WorkloadSpec,
        message: int,
        size: int | None,
        timers: Timers,
        on_sent: Callable[[SentMessage], None],
        on_done: Callable[[], None],
    ) -> None:
        super().__init__(on_done)
        self.sender = sender
        self._message, self._size = message, size
        self._duration, self._depth, self._rate = spec.duration, spec.depth, spec.rate
        self._on_sent = on_sent
        self._next = 0
        self._count = None if size is None else max(1, -(-size // message))
        self._deadline: float | None = None
        self._timer = timers.timer(self._on_timer)

    def start(self, now: float) -> None:
        """Post the first messages; with a duration, the last is posted when it is over."""
        self.began = now
        if self._duration is not None:
            self._deadline = now + self._duration
        self._pump(now)

    def stop(self, now: float) -> None:
        """Stop posting; messages in flight still count."""
        self._deadline = now if self._deadline is None else min(self._deadline, now)
        self._pump(now)

    def completed(self, message: SentMessage | None, now: float) -> None:
        """Handle a completion; it may have made a message whole, or have been an error."""
        if self.over:
            return
        if message is not None:
            self._on_sent(message)
        self._pump(now)

    def _on_timer(self, now: float) -> None:
        if self.running:
            self._pump(now)

    def _pump(self, now: float) -> None:
        """Post messages as far as allowed; end if none is left."""
        sender = self.sender
        while not (sender.error or self._all_posted(now)):
            if sender.outstanding >= self._depth or not sender.may_post(self._next):
                return
            due = self._due(self._next)
            if due > now:
                self._timer.arm(due if self._deadline is None else min(due, self._deadline))
                return
            self._post(self._next, now)
            self._next += 1
        if sender.error or not sender.outstanding:
            self._timer.cancel()
            self._end(now)

    def _all_posted(self, now: float) -> bool:
        if self._deadline is not None and now >= self._deadline:
            return True
        return self._count is not None and self._next >= self._count

    def _due(self, number: int) -> float:
        return self.began if self._rate is None else self.began + number * self._message / self._rate

    def _post(self, number: int, now: float) -> None:
        length = self._message if self._size is None else min(self._message, self._size - number * self._message)
        self.sender.post(number, length, shift(number), now)
