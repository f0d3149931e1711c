"""EV profiles of the control interface: arrays of EVs that a controller fills, or a generator, and that QPs draw from.

Facts: OCP headers (`mrc_ctl.h`), docs/mrc-protocol.md §1.4.1. States INIT → OFFLINE → ONLINE and back; an explicit
entry starts unpopulated and must be replaced before ONLINE; `ev_min_active` guards against too many ASSUMED_BAD; events
only for GOOD and ASSUMED_BAD.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from mrclab.hosts.mrc.evs.evformat import EvFormat, Expansion
from mrclab.hosts.rdma.errors import VerbsError

MAX_EVS: Final = 256
MAX_EVENTS: Final = 256  # kept per profile; further ones are counted as dropped


class Mode(Enum):
    """Source of a profile's EVs."""

    AUTO = "AUTO"  # the implementation draws them when a QP is made
    EXPLICIT = "EXPLICIT"  # the controller writes them
    GENERATED = "GENERATED"  # drawn at random and expanded


class ProfileState(IntEnum):
    """State of a profile: enum mrc_ctl_profile_state."""

    INIT = 0
    OFFLINE = 1
    ONLINE = 2


PROFILE_STEPS: Final = {
    (ProfileState.INIT, ProfileState.OFFLINE),
    (ProfileState.OFFLINE, ProfileState.ONLINE),
    (ProfileState.ONLINE, ProfileState.OFFLINE),
    (ProfileState.OFFLINE, ProfileState.INIT),
}


class ApiState(Enum):
    """State of an EV in the control interface; SKIP is internal and shown as GOOD."""

    GOOD = "GOOD"
    ASSUMED_BAD = "ASSUMED_BAD"
    DENIED = "DENIED"
    UNKNOWN = "UNKNOWN"


API_STATES: Final = {
    "GOOD": ApiState.GOOD,
    "STANDBY": ApiState.GOOD,
    "SKIP": ApiState.GOOD,
    "PORT_DOWN": ApiState.GOOD,
    "ASSUMED_BAD": ApiState.ASSUMED_BAD,
    "DENIED": ApiState.DENIED,
}
"""By the state that history and samples show."""

EVENT_STATES: Final = frozenset({ApiState.GOOD, ApiState.ASSUMED_BAD})


@dataclass
class EvProfileEntry:
    """One entry of the array; `value` is None while it is not populated.

    `expanded` is the value in packets, if it differs from the controller's.
    """

    port: int = 0
    value: bytes | None = None
    state: ApiState = ApiState.UNKNOWN
    expanded: bytes | None = None


class EvEvent(NamedTuple):
    """A change of one EV; `dropped` counts events that its queue lost before it."""

    profile: int
    port: int
    value: bytes
    state: ApiState
    dropped: int = 0


class EvEvents:
    """Queue of EV events; those beyond its capacity are counted in the next one that it takes."""

    __slots__ = ("_capacity", "_dropped", "_events")

    def __init__(self, capacity: int = MAX_EVENTS) -> None:
        self._capacity = capacity
        self._events: deque[EvEvent] = deque()
        self._dropped = 0

    def add(self, event: EvEvent) -> bool:
        """Append an event; return False if the queue is full."""
        if len(self._events) >= self._capacity:
            self._dropped += 1
            return False
        self._events.append(event._replace(dropped=self._dropped))
        self._dropped = 0
        return True

    def take(self, most: int = MAX_EVENTS) -> list[EvEvent]:
        """Remove and return up to `most` events, oldest first."""
        return [self._events.popleft() for _ in range(min(most, len(self._events)))]


@dataclass
class EvProfile:
    """One profile. Made and changed through Ctl."""

    number: int
    mode: Mode
    format: EvFormat
    ev_count: int
    ev_min_active: int
    event_mask: frozenset[ApiState]
    expansion: Expansion | None = None
    state: ProfileState = ProfileState.INIT
    users: int = 0
    entries: list[EvProfileEntry] = field(default_factory=list)
    denied: set[tuple[int, bytes]] = field(default_factory=set)  # ports and values that the controller denied
    events: EvEvents = field(default_factory=EvEvents)
    hashed: bool = False  # a STEV value that is not an EV of this fabric selects a path as a hash would
    listener: Callable[[EvEvent], object] | None = None  # gets the events instead of the profile's own queue

    def __post_init__(self) -> None:
        if not 1 <= self.ev_count <= MAX_EVS:
            raise VerbsError("E2BIG", f"ev_count {self.ev_count} is outside 1…{MAX_EVS}")
        if not 0 <= self.ev_min_active <= self.ev_count:
            raise VerbsError("EINVAL", f"ev_min_active {self.ev_min_active} is outside 0…ev_count ({self.ev_count})")
        if not self.event_mask <= EVENT_STATES:
            names = ", ".join(sorted(state.value for state in self.event_mask - EVENT_STATES))
            raise VerbsError("EINVAL", f"events can be requested for GOOD and ASSUMED_BAD, not for {names}")
        if (self.mode is Mode.GENERATED) != (self.expansion is not None):
            raise VerbsError("EINVAL", "a GENERATED profile needs an expansion, and no other mode takes one")
        if self.mode is Mode.EXPLICIT and not self.entries:
            self.entries = [EvProfileEntry() for _ in range(self.ev_count)]

    # --- the array --------------------------------------------------------------------------------

    def replace(self, index: int, port: int, value: bytes, all_copies: bool = False) -> None:
        """Write an entry; `all_copies` writes every entry that has the old one's port and value."""
        if self.mode is not Mode.EXPLICIT:
            raise VerbsError(
                "EOPNOTSUPP", f"EV profile {self.number} is {self.mode.value}; only EXPLICIT ones are written"
            )
        if len(value) != self.format.value:
            raise VerbsError("EINVAL", f"a {self.format.name} value has {self.format.value} bytes, not {len(value)}")
        old = self._entry(index)
        same = (old.port, old.value)
        for at, entry in enumerate(self.entries):
            if at == index or (all_copies and same[1] is not None and (entry.port, entry.value) == same):
                entry.port, entry.value = port, value
                entry.state = ApiState.DENIED if self.denies(port, value) else ApiState.GOOD

    def deny(self, port: int, value: bytes) -> None:
        """Deny an EV, also for future QPs."""
        self.denied.add((port, value))
        self._mark(port, value, ApiState.DENIED)

    def allow(self, port: int, value: bytes) -> None:
        """Lift the denial of an EV."""
        self.denied = {known for known in self.denied if not self.same(known, (port, value))}
        self._mark(port, value, ApiState.GOOD)

    def denies(self, port: int, value: bytes) -> bool:
        """Return True if an EV is denied in this profile."""
        return any(self.same(known, (port, value)) for known in self.denied)

    def _mark(self, port: int, value: bytes, state: ApiState) -> None:
        for entry in self.entries:
            if (entry.port, entry.value) == (port, value):
                entry.state = state

    def same(self, one: tuple[int, bytes], other: tuple[int, bytes]) -> bool:
        """Return True if two values are one EV. Tags of EVs that an AUTO profile draws differ each time."""
        if self.mode is Mode.AUTO and self.format is EvFormat.STEV:
            return (one[0], one[1][:2]) == (other[0], other[1][:2])
        return one == other

    def transition(self, target: ProfileState) -> None:
        """Take a step of INIT ⇄ OFFLINE ⇄ ONLINE; EINVAL for other steps, EBUSY for going offline under QPs.

        In INIT an explicit array is unpopulated again.
        """
        if (self.state, target) not in PROFILE_STEPS:
            raise VerbsError("EINVAL", f"EV profile {self.number} cannot go from {self.state.name} to {target.name}")
        if target is ProfileState.ONLINE:
            empty = sum(entry.value is None for entry in self.entries)
            if empty:
                raise VerbsError(
                    "EINVAL", f"EV profile {self.number} has {empty} unpopulated entries; replace them first"
                )
        else:
            self.check_unused()
        if target is ProfileState.INIT and self.mode is Mode.EXPLICIT:
            self.entries = [EvProfileEntry() for _ in range(self.ev_count)]
            self.denied.clear()
        self.state = target

    def check_unused(self) -> None:
        """Raise EBUSY while QPs use it."""
        if self.users:
            raise VerbsError("EBUSY", f"EV profile {self.number} serves {self.users} QPs; destroy them first")

    def generate(self, ports: list[int], rng: random.Random) -> None:
        """Draw the entries of a GENERATED profile, an equal number per port."""
        assert self.expansion is not None
        self.entries = []
        for n in range(self.ev_count):
            value = self.expansion.expand(self.expansion.draw(rng))
            self.entries.append(EvProfileEntry(ports[n % len(ports)], value, ApiState.GOOD))

    def _entry(self, index: int) -> EvProfileEntry:
        if not 0 <= index < len(self.entries):
            raise VerbsError("EINVAL", f"EV profile {self.number} has no entry {index}; it has {len(self.entries)}")
        return self.entries[index]

    # --- events -----------------------------------------------------------------------------------

    def changed(self, port: int, value: bytes, state: ApiState) -> None:
        """Report the change of an EV's state in a QP."""
        if state in self.event_mask:
            (self.listener or self.events.add)(EvEvent(self.number, port, value, state))
