"""Entropy values of one QP: their states, which of them are active, and which one the next packet takes.

States and transitions are those of docs/mrc-protocol.md §1.4.3, selection §5.5, replacement only inside a plane,
and `ev_min_active` a floor over all planes. STANDBY (a GOOD EV waiting as backup) and PORT_DOWN are internal marks;
the API view calls them GOOD.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntFlag
from typing import Any, Final, Protocol, TypeVar

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.hosts.rdma.timers import Timer
from mrclab.topo import srv6

T = TypeVar("T")


class Denier(IntFlag):
    """Source of a denial; an EV is DENIED as long as any source denies it."""

    DENYLIST = 1  # of the node config
    CONTROL = 2  # MODIFY_EV_STATE


class EvState(Enum):
    """State of one EV."""

    GOOD = "GOOD"
    SKIP = "SKIP"
    ASSUMED_BAD = "ASSUMED_BAD"
    DENIED = "DENIED"


_GOOD: Final = EvState.GOOD
_NOBODY: Final = Denier(0)  # made once: making a flag is a function in Python

_STEPS: Final = 60  # of a packet by the fastest plane

NO_COPIES: Final[list[tuple[int, Any]]] = []
"""Copies on an EV that no packet took yet; whoever adds one puts a list of its own there first."""


class ProbeState:
    """Progress of the recovery of an ASSUMED_BAD EV: `failed_at` when it was last retired, `told` by a sibling."""

    __slots__ = ("failed_at", "interval", "needed", "probe_id", "reserved", "successes", "timer", "told")

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self.successes = 0
        self.needed = 0
        self.interval = 0.0
        self.failed_at = float("-inf")
        self.probe_id: int | None = None  # on its way
        self.told = False
        self.reserved = False  # the timer waits for the turn of its probe


class PathSource(Protocol):
    """Source of the paths of EVs: what is known of their destination."""

    def path(self, plane: int, uplink: int, tag: int) -> EvRoute:
        """The path by a T0 uplink in a plane, with this tag."""


class Ev:
    """One entropy value: its path, state and counters (data packets only)."""

    __slots__ = (
        "_api_value",
        "_path",
        "_paths",
        "acked",
        "active",
        "bad_since",
        "denied_by",
        "fifo",
        "lost",
        "marked",
        "nacked",
        "plane",
        "probing",
        "retransmitted",
        "sent",
        "skip_until",
        "state",
        "uplink",
        "value",
    )

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
        # (transmission number, sent packet), oldest first; some at most, and nobody's list before the first
        self.fifo: list[tuple[int, Any]] = NO_COPIES
        self.sent = self.acked = self.lost = self.nacked = self.marked = self.retransmitted = 0

    @property
    def path(self) -> EvRoute:
        """Made when the first packet takes it: of a set of many EVs a short transfer uses few."""
        path = self._path
        if path is None:
            path = self._path = self._paths.path(self.plane, self.uplink, srv6.ev_fields(self.value).tag)
        return path

    @property
    def api_value(self) -> bytes:
        """As the control interface knows it."""
        given = self._api_value
        return self.value.to_bytes(4, "big") if given is None else given

    @api_value.setter
    def api_value(self, given: bytes) -> None:
        self._api_value = given

    @property
    def shown_state(self) -> str:
        """Word for history and samples."""
        if self.state is EvState.GOOD and not self.active:
            return "STANDBY"
        return self.state.value


class Supply(Protocol):
    """EVs of one plane that are drawn and made when they are first needed."""

    plane: int
    left: int  # that can still be made

    def make(self) -> Ev:
        """The next of them."""


class Plane:
    """The EVs of one plane: the active ones in rotation, the others waiting or retired.

    Those that `supply` has left are as good as made: first they fill the rotation, then they are backups.
    """

    __slots__ = ("active", "at", "down_at", "evs", "number", "share", "skipped", "step", "supply", "target", "up")

    def __init__(self, number: int, evs: list[Ev], target: int, supply: Supply | None = None) -> None:
        self.supply = supply
        self.number = number
        self.evs = evs
        self.target = target  # active EVs when all is well
        self.active: list[Ev] = []
        self.at = 0  # next in rotation
        self.skipped = 0  # EVs in SKIP
        self.share = 0  # data packets sent, kept level with the other planes
        self.step = 1  # that each adds to it: more in a plane that is slower than others
        self.up = True
        self.down_at = 0.0

    @property
    def unmade(self) -> int:
        """Active EVs that are not made yet."""
        return 0 if self.supply is None else min(self.supply.left, max(0, self.target - len(self.active)))

    @property
    def usable(self) -> bool:
        """True if a packet may be sent in this plane."""
        return self.up and bool(self.active)

    def backup(self) -> Ev | None:
        """A GOOD EV that is not in rotation: of several the one whose last mark is longest ago."""
        waiting = [ev for ev in self.evs if not ev.active and ev.state is EvState.GOOD]
        return min(waiting, key=lambda ev: ev.skip_until) if waiting else None


def shuffle(evs: list[T], rng: random.Random) -> None:
    """As `rng.shuffle` has it, draw by draw, without Python's three calls for each."""
    for at in range(len(evs) - 1, 0, -1):
        bits = (at + 1).bit_length()
        other = rng.getrandbits(bits)
        while other > at:
            other = rng.getrandbits(bits)
        evs[at], evs[other] = evs[other], evs[at]


Change = Callable[[Ev, str, str, str], None]  # (ev, old, new, reason)


class EvSet:
    """The EV set of one QP."""

    def __init__(
        self,
        evs: Iterable[Ev],
        active_per_plane: int,
        min_active: int,
        rng: random.Random,
        on_change: Change,
        supplies: Iterable[Supply] = (),
        on_made: Callable[[Ev], None] = lambda _ev: None,
    ) -> None:
        self._rng = rng
        self.selection: PathSelection | None = None  # None: by rotation
        self._on_change = on_change
        self._on_made = on_made
        self.min_active = max(1, min_active)
        self.by_value: dict[int, Ev] = {}
        self.floor_hits = 0  # losses that could only SKIP an EV because of the floor
        self.skips_ignored = 0  # marks ignored because most of the set was skipped already
        self.changes = 0  # of what EVs are in, by whatever cause
        grouped: dict[int, list[Ev]] = {}
        for ev in evs:
            self.by_value[ev.value] = ev
            grouped.setdefault(ev.plane, []).append(ev)
        self.planes: dict[int, Plane] = {}
        self._plane_list: list[Plane] = []
        for number, members in grouped.items():
            plane = self.planes[number] = Plane(number, members, min(active_per_plane, len(members)))
            for ev in members[: plane.target]:
                self._activate(plane, ev)
            self._plane_list.append(plane)
        for supply in supplies:
            plane = self.planes[supply.plane] = Plane(supply.plane, [], min(active_per_plane, supply.left), supply)
            self._plane_list.append(plane)

    def weigh(self, rates: Mapping[int, float]) -> None:
        """Send by each plane as its rate is among all: packets of slow planes count for more, in sixtieths."""
        fastest = max(rates.values())
        for number, plane in self.planes.items():
            plane.step = max(1, round(_STEPS * fastest / rates[number]))

    def fill(self) -> None:
        """Have an EV in every plane that can have one."""
        for plane in self._plane_list:
            if not plane.active:
                self._grow(plane)

    # --- selection --------------------------------------------------------------------------------

    def usable(self, plane_number: int) -> bool:
        """Return True if a packet may go out in this plane at all."""
        plane = self.planes.get(plane_number)
        return plane is not None and plane.up and bool(plane.active)

    def in_turn(self, plane_number: int) -> bool:
        """Return True if new data may go out in this plane now: no plane gets more than one packet ahead of another."""
        plane = self.planes.get(plane_number)
        if plane is None or not plane.usable:
            return False
        share = plane.share
        for other in self._plane_list:  # noqa: SIM110  a generator costs three times as much, once per packet
            if other.share < share and other.up and other.active:
                return False
        return True

    def in_turn_again(self, plane_number: int, avoid: Ev | None) -> bool:
        """The same for a packet that is sent again: planes that have nothing but `avoid` for it do not count."""
        plane = self.planes[plane_number]
        share = plane.share
        for other in self._plane_list:
            if other.share < share and other.up and (other.unmade or any(ev is not avoid for ev in other.active)):
                return False
        return True

    def take(self, plane_number: int) -> Ev | None:
        """The EV for new data in this plane; None if the plane is not in turn or has none."""
        plane = self.planes.get(plane_number)
        if plane is None or not plane.up:
            return None
        share = plane.share
        for other in self._plane_list:
            if other.share < share and other.up and other.active:
                return None
        ev = self._next(plane, None)
        if ev is not None:
            plane.share = share + plane.step
        return ev

    def select(self, plane_number: int, avoid: Ev | None = None) -> Ev | None:
        """The EV for the next packet in this plane; None if there is none but `avoid`.

        A SKIP EV that is passed over becomes GOOD, one per call, and is taken only if there is nothing else.
        """
        plane = self.planes.get(plane_number)
        return self._next(plane, avoid) if plane is not None and plane.up else None

    def _next(self, plane: Plane, avoid: Ev | None) -> Ev | None:
        if self.selection is not None:
            return self._chosen(self.selection, plane, avoid)
        active, at = plane.active, plane.at
        if at >= len(active):
            if plane.supply is not None and (made := self._grow(plane)) is not None:
                plane.at = len(active)
                return made
            if not active:
                return None
            if len(active) > 1:
                shuffle(active, self._rng)
            at = 0
        ev = active[at]
        if ev.state is _GOOD and ev is not avoid:
            plane.at = at + 1
            return ev
        plane.at = at
        return self._search(plane, avoid)

    def _chosen(self, selection: PathSelection, plane: Plane, avoid: Ev | None) -> Ev | None:
        """The EV that a selection other than rotation chooses, of all active ones; at most one SKIP is undone."""
        while plane.unmade and self._grow(plane) is not None:
            pass
        active = plane.active
        if not active or (len(active) == 1 and active[0] is avoid):
            return None
        ev = selection.choose(active, avoid)
        if ev.state is not EvState.SKIP:
            return ev
        self._set(ev, EvState.GOOD, "skipped")
        if not selection.uses_skip:
            return ev
        return selection.choose(active, ev if len(active) > 1 and avoid is None else avoid)

    def _search(self, plane: Plane, avoid: Ev | None) -> Ev | None:
        """The slow way: a new pass begins, or the next EV in turn is not to be taken."""
        if len(plane.active) == 1:
            self._grow(plane)
        restored: Ev | None = None
        for _ in range(2 * len(plane.active)):  # twice: the reshuffle between two passes may repeat some
            if plane.at >= len(plane.active):
                shuffle(plane.active, self._rng)
                plane.at = 0
            ev = plane.active[plane.at]
            plane.at += 1
            if ev.state is EvState.SKIP:
                if restored is None:
                    restored = ev
                    self._set(ev, EvState.GOOD, "skipped")
            elif ev is not restored and ev is not avoid:
                return ev
        if restored is not None and restored is not avoid:
            return restored
        return next((ev for ev in plane.active if ev is not avoid), None)

    def has_other(self, ev: Ev | None) -> bool:
        """Return True if an EV other than this one could be selected in some plane."""
        up = [plane for plane in self.planes.values() if plane.up]
        return any(plane.unmade or any(other is not ev for other in plane.active) for plane in up)

    # --- feedback ---------------------------------------------------------------------------------

    def skip(self, ev: Ev, now: float, hold: float, reason: str) -> None:
        """Congestion on this path: leave it out once. `hold` seconds long further marks do not count.

        Where it is the only one in rotation in its plane, leaving it out means that a backup takes its place.
        """
        if ev.state is not EvState.GOOD or now < ev.skip_until:
            return
        if self.selection is not None and not self.selection.uses_skip:
            return
        plane = self.planes[ev.plane]
        if not ev.active:  # it waits as backup: news of packets that it carried before
            ev.skip_until = now + hold
            return
        if len(plane.active) == 1:
            self._grow(plane)
        backup = self._backup(plane) if len(plane.active) == 1 else None
        if backup is not None:
            ev.skip_until = now + hold
            self._swap(plane, ev, backup, reason)
            return
        skipped = sum([other.skipped for other in self._plane_list if other.up])
        if 2 * (skipped + 1) > self.active_count():
            self.skips_ignored += 1
            return
        ev.skip_until = now + hold
        self._set(ev, EvState.SKIP, reason)

    def lost(self, ev: Ev, now: float, reason: str) -> bool:
        """A packet vanished on this path: a backup of its plane takes its place. False where the floor kept it."""
        if ev.state in {EvState.ASSUMED_BAD, EvState.DENIED}:
            return False
        plane = self.planes[ev.plane]
        if not plane.up:
            return False
        backup = self._backup(plane) if ev.active else None
        if ev.active and backup is None and self.active_count() <= self.min_active:
            self.floor_hits += 1
            if ev.state is EvState.GOOD:
                self._set(ev, EvState.SKIP, "floor")
            return False
        self._deactivate(plane, ev)
        ev.bad_since = now
        self._set(ev, EvState.ASSUMED_BAD, reason)
        if backup is not None:
            self._activate(plane, backup, reason="replacement")
        return True

    def restore(self, ev: Ev, reason: str, skip: bool = False) -> None:
        """An ASSUMED_BAD EV proved itself: back into rotation if its plane has a place, else it waits as backup."""
        if ev.state is not EvState.ASSUMED_BAD:
            return
        plane = self.planes[ev.plane]
        if len(plane.active) < plane.target:
            self._join(plane, ev)
        self._set(ev, EvState.SKIP if skip and ev.active else EvState.GOOD, reason)

    # --- the controller's and the ports' word -----------------------------------------------------

    def deny(self, ev: Ev, by: Denier = Denier.CONTROL) -> None:
        """The controller forbids this EV."""
        ev.denied_by |= by
        if ev.state is EvState.DENIED:
            return
        plane = self.planes[ev.plane]
        backup = self._backup(plane) if ev.active else None
        self._deactivate(plane, ev)
        self._set(ev, EvState.DENIED, "controller")
        if backup is not None and backup is not ev:
            self._activate(plane, backup, reason="replacement")
        self._keep_one()

    def allow(self, ev: Ev, by: Denier = Denier.CONTROL) -> None:
        """The controller lifts this word of its."""
        ev.denied_by &= ~by
        if ev.denied_by or ev.state is not EvState.DENIED:
            return
        plane = self.planes[ev.plane]
        if len(plane.active) < plane.target:
            self._join(plane, ev)
        self._set(ev, EvState.GOOD, "controller")

    def plane_down(self, number: int, now: float, reason: str) -> None:
        """The port of this plane, here or at the peer, is down: its EVs rest, whatever their state."""
        plane = self.planes.get(number)
        if plane is None or not plane.up:
            return
        plane.up = False
        self.changes += 1
        plane.down_at = now
        for ev in plane.active:
            self._on_change(ev, ev.shown_state, "PORT_DOWN", reason)
        self._keep_one()

    def plane_up(self, number: int, reason: str, shadow: float) -> None:
        """The port is back and its EVs at once, also those retired from `shadow` seconds before it went down on."""
        plane = self.planes.get(number)
        if plane is None or plane.up:
            return
        plane.up = True
        self.changes += 1
        plane.share = max((p.share for p in self.planes.values() if p is not plane and p.usable), default=plane.share)
        for ev in plane.active:
            self._on_change(ev, "PORT_DOWN", ev.shown_state, reason)
        for ev in plane.evs:
            if ev.state is EvState.ASSUMED_BAD and ev.bad_since >= plane.down_at - shadow:
                self.restore(ev, reason)

    # --- views ------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """EVs in all planes, made or not."""
        left = [plane.supply.left for plane in self._plane_list if plane.supply is not None]
        return len(self.by_value) + sum(left)

    def active_count(self) -> int:
        """EVs in rotation in planes that are up."""
        return sum(len(plane.active) + plane.unmade for plane in self.planes.values() if plane.up)

    def _keep_one(self) -> None:
        """Return the EV retired longest ago to service before its probes allow it, where no EV is left to send by.

        A port or the controller can take the last good one; a loss cannot, for that there is the floor.
        """
        if self.active_count():
            return
        bad = [ev for p in self._plane_list if p.up for ev in p.evs if ev.state is EvState.ASSUMED_BAD]
        if bad:
            self.restore(min(bad, key=lambda ev: ev.bad_since), "last resort")

    # --- inside -----------------------------------------------------------------------------------

    def _made(self, plane: Plane) -> Ev | None:
        """One more EV of a plane, that nobody denies; None where all are made."""
        supply = plane.supply
        while supply is not None and supply.left:
            ev = supply.make()
            if not supply.left:
                plane.supply = None
            plane.evs.append(ev)
            self.by_value[ev.value] = ev
            self._on_made(ev)
            if ev.state is EvState.GOOD:
                return ev
        return None

    def _grow(self, plane: Plane) -> Ev | None:
        """One more EV in rotation, where some of the active ones are not made yet."""
        ev = self._made(plane) if plane.unmade else None
        if ev is not None:
            self._join(plane, ev)
        return ev

    def _backup(self, plane: Plane) -> Ev | None:
        """An EV to take the place of one in rotation."""
        return plane.backup() or self._made(plane)

    def _set(self, ev: Ev, state: EvState, reason: str) -> None:
        old, ev_was_skip = ev.state.value, ev.state is EvState.SKIP
        ev.state = state
        self.changes += 1
        self.planes[ev.plane].skipped += (state is EvState.SKIP) - ev_was_skip
        self._on_change(ev, old, ev.shown_state, reason)

    def _join(self, plane: Plane, ev: Ev) -> None:
        if not plane.active:  # a plane that comes back into use starts level with the others
            plane.share = max(
                (p.share for p in self.planes.values() if p is not plane and p.usable), default=plane.share
            )
        ev.active = True
        self.changes += 1
        plane.active.append(ev)

    def _activate(self, plane: Plane, ev: Ev, reason: str = "") -> None:
        old = ev.shown_state
        self._join(plane, ev)
        if reason:
            self._on_change(ev, old, ev.shown_state, reason)

    def _swap(self, plane: Plane, ev: Ev, backup: Ev, reason: str) -> None:
        """A backup goes into rotation, and what it replaces becomes one."""
        old = ev.shown_state
        self._deactivate(plane, ev)
        self._on_change(ev, old, ev.shown_state, reason)
        self._activate(plane, backup, reason="replacement")

    def _deactivate(self, plane: Plane, ev: Ev) -> None:
        if not ev.active:
            return
        at = plane.active.index(ev)
        del plane.active[at]
        if at < plane.at:
            plane.at -= 1
        ev.active = False
        self.changes += 1
        if not plane.active:
            self._grow(plane)
