"""One entropy value: its path, state and counters."""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Final, Protocol

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.rdma.timers import Timer
from mrclab.topo import srv6


class Denier(IntFlag):
    """Source of a denial; an EV is DENIED as long as any source denies it."""

    DENYLIST = 1  # of the node config
    CONTROL = 2  # MODIFY_EV_STATE


_NOBODY: Final = Denier(0)  # made once: making a flag is a function in Python

NO_COPIES: Final[list[tuple[int, Any]]] = []
"""Shared empty list of transmissions; an EV gets its own with its first packet."""


class ProbeState:
    """Progress of the recovery of an ASSUMED_BAD EV.

    `failed_at` is when it was last retired, `by_same_peer` True if another QP of the same peer reported its path.
    """

    __slots__ = ("by_same_peer", "failed_at", "interval", "needed", "probe_id", "reserved", "successes", "timer")

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.successes = 0
        self.needed = 0
        self.interval = 0.0
        self.failed_at = float("-inf")
        self.probe_id: int | None = None  # on its way
        self.by_same_peer = False
        self.reserved = False  # the timer waits for the slot of its probe


class PathSource(Protocol):
    """Source of paths of EVs: knows their destination."""

    def path(self, value: int) -> EvRoute:
        """Return the path of an EV."""


class Ev:
    """One entropy value. Counters are of data packets only."""

    __slots__ = (
        "_api_value", "_path", "_paths", "acked", "active", "bad_since", "denied_by", "fifo", "lost", "marked",
        "nacked", "plane", "probing", "retransmitted", "sent", "skip_until", "state", "uplink", "value",
    )  # fmt: skip

    def __init__(self, paths: PathSource, plane: int, uplink: int, tag: int) -> None:
        self._paths = paths
        self._path: EvRoute | None = None
        self._api_value: bytes | None = None
        self.value = srv6.ev(plane, uplink, tag)
        self.plane = plane
        self.uplink = uplink
        self.state = EvState.GOOD
        self.active = False  # else a backup
        self.skip_until = 0.0  # no second SKIP before this time
        self.bad_since = 0.0
        self.denied_by = _NOBODY
        self.probing: ProbeState | None = None
        # (transmission number, sent packet), oldest first; some at most, and the shared empty list before the first
        self.fifo: list[tuple[int, Any]] = NO_COPIES
        self.sent = self.acked = self.lost = self.nacked = self.marked = self.retransmitted = 0

    @property
    def path(self) -> EvRoute:
        """Path, made with its first packet: a short transfer uses few EVs of a large set."""
        path = self._path
        if path is None:
            path = self._path = self._paths.path(self.value)
        return path

    @property
    def api_value(self) -> bytes:
        """Value in the control interface."""
        given = self._api_value
        return self.value.to_bytes(4, "big") if given is None else given

    @api_value.setter
    def api_value(self, given: bytes) -> None:
        self._api_value = given

    @property
    def shown_state(self) -> str:
        """State in history and samples."""
        if self.state is EvState.GOOD and not self.active:
            return "STANDBY"
        return self.state.value
