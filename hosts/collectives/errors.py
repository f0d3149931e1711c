"""Errors of a job's collectives."""

from __future__ import annotations


class CollectiveError(RuntimeError):
    """A collective that failed on this `rank`: because of `peer`, where one is to blame, and the `reason`."""

    def __init__(self, text: str, rank: int, peer: int | None, reason: str) -> None:
        super().__init__(text)
        self.rank, self.peer, self.reason = rank, peer, reason


class CollectiveTimeoutError(CollectiveError):
    """A collective that was not done in its time."""
