"""Multicast groups and clone sessions, and the copies they make (simple_switch: multicast, mirroring sessions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mrclab.softswitch.objects.runtime_api import (
    CloneSession,
    Replica,
)
from mrclab.softswitch.p4.layout import REPLICATED, SPILL_PREFIX, UNCUT

State = tuple[Any, ...]


class Replication:
    """Copies that a switch makes, and where. `enqueue` puts a copy into a port's queue.

    `groups` (multicast) and `sessions` (clones) are the control plane's to change.
    """

    def __init__(self, enqueue: Callable[[int, int, State], None]) -> None:
        self._enqueue = enqueue
        self.groups: dict[int, tuple[Replica, ...]] = {}
        self.sessions: dict[int, CloneSession] = {}

    # -- called by the generated code ---------------------------------------------------------------------------------

    def multicast(self, group: int, priority: int, state: State) -> None:
        """Queue one copy per replica of a group; none where there is no such group."""
        function, data, length = state[:3]
        rest = state[SPILL_PREFIX:]
        for port, instance in in_order(self.groups.get(group, ())):
            self._enqueue(port, priority, (function, bytearray(data), length, REPLICATED, instance, UNCUT, *rest))

    def clone_to(self, session: CloneSession, priority: int, state: State) -> None:
        """Queue the copies of a clone session."""
        function, data, length, kind = state[:4]
        rest = state[SPILL_PREFIX:]
        for port, instance in in_order(session.replicas):
            copy = (function, bytearray(data), length, kind, instance, session.packet_length or UNCUT, *rest)
            self._enqueue(port, priority, copy)


def in_order(replicas: Sequence[Replica]) -> list[Replica]:
    """Return replicas in the order in which BMv2 makes the copies: the last rid first, its ports ascending.

    P4Runtime leaves the order open; it matters only where two copies leave by one port.
    """
    by_rid: dict[int, list[Replica]] = {}
    for replica in replicas:
        by_rid.setdefault(replica.instance, []).append(replica)
    return [replica for copies in reversed(by_rid.values()) for replica in sorted(copies)]
