"""Errors of a job's collectives."""

from __future__ import annotations


class CollectiveError(RuntimeError):
    """A collective that failed on this `rank`, with the `peer` to blame, if there is one, and the `reason`."""

    def __init__(self, text: str, rank: int, peer: int | None, reason: str) -> None:
        super().__init__(text)
        self.rank, self.peer, self.reason = rank, peer, reason


class CollectiveTimeoutError(CollectiveError):
    """A collective that exceeded its time-out."""
