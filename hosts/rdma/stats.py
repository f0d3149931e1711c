"""Counters of one QP that every transport has. Plain integers, so that counting costs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import get_annotations
from operator import attrgetter
from typing import Any


class QpStats:
    """Counters of one QP since it was created.

    No dataclass: one with forty fields takes 11,000 instructions to make, and each connection has two.
    """

    posted_bytes: int = 0
    sent_packets: int = 0  # data, with retransmissions
    sent_bytes: int = 0  # payload, with retransmissions
    acked_packets: int = 0
    acked_bytes: int = 0
    retx_packets: int = 0
    lost_packets: int = 0  # by whatever trigger
    lost_nack: int = 0  # of these by a NACK or NAK
    lost_timeout: int = 0
    acks_received: int = 0
    nacks_received: int = 0
    timeouts: int = 0
    bogus_control: int = 0  # control packets that named data that was never sent
    received_packets: int = 0
    placed_packets: int = 0
    placed_bytes: int = 0
    duplicate_packets: int = 0
    ecn_packets: int = 0
    no_resource: int = 0  # immediates without a posted receive
    access_errors: int = 0
    acks_sent: int = 0
    nacks_sent: int = 0

    def as_dict(self) -> dict[str, int]:
        """All counters by name, as samples and `stats` show them."""
        return {name: getattr(self, name) for name in _names(type(self))}


def _names(kind: type[QpStats]) -> list[str]:
    """Return the names of a class's counters: annotated or, compiled, listed by mypyc."""
    found: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        listed: Iterable[str] = getattr(base, "__mypyc_attrs__", ())
        found |= dict.fromkeys(get_annotations(base) or listed)
    return list(found)


def reader(kind: type[QpStats]) -> attrgetter[tuple[Any, ...]]:
    """Return a function that reads all counters of this class at once, to detect a change cheaply."""
    return attrgetter(*_names(kind))
