"""Collectives without a reduction: in every round a host exchanges the same number of bytes with each peer.

A host begins a round when everything of the last one was acknowledged and received. All-to-all and the send/recv ring
differ only in a host's peers. With a time limit, see `hosts.workloads.span`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mrclab.hosts.workloads.channel import ChannelSender, Received, SentMessage, shift
from mrclab.hosts.workloads.span import Span, WorkloadBounds


class Rounds(Span):
    """Drives one host's part.

    `on_round(number, began, ended, idle)` after each, `on_done` after the last one or a failure. `idle`: its time is
    over; it continues only if a peer has begun another round.
    """

    def __init__(
        self,
        senders: Mapping[str, ChannelSender],
        receivers: int,
        size: int,
        bounds: WorkloadBounds,
        on_round: Callable[[int, float, float, bool], None],
        on_done: Callable[[], None],
    ) -> None:
        super().__init__(on_done)
        self._senders = list(senders.values())
        self._receivers = receivers
        self._size = size
        self._bounds = bounds
        self._on_round = on_round
        self._round = 0
        self._round_began = 0.0
        self._arrived: dict[int, int] = {}  # received messages of a round

    def start(self, now: float) -> None:
        """Begin the first round."""
        self.began = now
        self._begin(now)

    def sent(self, message: SentMessage | None, now: float) -> None:
        """Handle a completion of a sender."""
        self._advance(now)

    def received(self, message: Received | None, now: float) -> None:
        """Handle a completion of a receiver."""
        if message is not None:
            self._arrived[message.number] = self._arrived.get(message.number, 0) + 1
        self._advance(now)

    def _begin(self, now: float) -> None:
        self._round_began = now
        for sender in self._senders:
            sender.post(self._round, self._size, shift(self._round), now)

    def _advance(self, now: float) -> None:
        if not self.running:
            return
        if any(sender.error for sender in self._senders):
            self._end(now)
            return
        if self._idle_since is not None:
            if not self._arrived.get(self._round):
                return
            self._idle_since = None
            self._begin(now)
        while self._arrived.get(self._round, 0) == self._receivers and not any(s.outstanding for s in self._senders):
            self._arrived.pop(self._round)
            over = self._bounds.over(self._round + 1, now)
            idle = self._bounds.by_time and over and not self._arrived.get(self._round + 1)
            self._on_round(self._round, self._round_began, now, idle)
            self._round += 1
            if idle:
                self._idle_since = now
                return
            if over and not self._bounds.by_time:
                self._end(now)
                return
            self._begin(now)
