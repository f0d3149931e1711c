"""Another rank of a job, as a mesh knows it, and the place where ranks exchange addresses."""

from __future__ import annotations

import time
from typing import Any, Protocol

from mrclab.hosts.collectives.lane import Lane


class Rendezvous(Protocol):
    """Key-value store, such as PyTorch's, in which ranks find each other. `get` waits for the key."""

    def set(self, key: str, value: str, /) -> Any:
        """Put a value under a key."""

    def get(self, key: str, /) -> bytes:
        """Return the value of a key; raises an exception after the store's own time-out."""


class MeshPeer:
    """Another rank of the job."""

    def __init__(self, rank: int, lanes: list[Lane]) -> None:
        self.rank, self.lanes = rank, lanes
        self.host = ""
        self.last_received = time.monotonic()
        self.goodbyes = 0
        self.lost = ""  # why it cannot be reached any more

    @property
    def left(self) -> bool:
        """True once it has closed all lanes."""
        return self.goodbyes >= len(self.lanes)

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host})"
