"""Nodes of a recorded job, as any format gives them."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_NODES = 4_000_000
"""Nodes of all ranks together."""

DELAY = -1
ANY = -1
"""Peer or tag of a receive that takes a message from any rank, or with any tag."""


@dataclass(frozen=True)
class RecordedNode:
    """One node of one rank; `text` is its name for display. `after` and `begun_after` are other nodes' ids.

    A computation has `seconds` and a `unit`; a send or receive has a `peer`, a `size` and a `tag`; a collective has
    its kind, a `size` and the ranks of its `group`.
    """

    key: int
    text: str
    kind: int
    seconds: float = 0.0
    unit: int = 0
    peer: int = 0
    size: int = 0
    tag: int = 0
    collective: str = ""
    group: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    begun_after: tuple[int, ...] = ()


@dataclass
class RecordedRank:
    """The nodes of one rank, in the order of `file`, where they are from."""

    file: str
    nodes: list[RecordedNode] = field(default_factory=list)
