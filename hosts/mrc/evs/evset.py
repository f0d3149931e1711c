"""EV set of one QP: the EVs in rotation, and the one that the next packet uses.

Selection follows docs/mrc-protocol.md §3.5. An EV is replaced only inside its plane; `ev_min_active` is a floor over
all planes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mrclab.hosts.mrc.evs.ev import Denier, Ev
from mrclab.hosts.mrc.evs.plane import EvFactory, Plane, shuffle
from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.hosts.mrc.evs.states import EvInput, EvState, next_state

_GOOD: Final = EvState.GOOD
_PACKET_UNITS: Final = 60  # that a packet adds to the count of the fastest plane

Change = Callable[[Ev, str, str, str, float], None]  # (ev, old, new, reason, now)


class EvSet:
    """The EV set of one QP."""

    def __init__(
        self,
        evs: Iterable[Ev],
        active_per_plane: int,
        min_active: int,
        rng: random.Random,
        on_change: Change,
        factories: Iterable[EvFactory] = (),
        on_made: Callable[[Ev, float], None] = lambda _ev, _now: None,
    ) -> None:
        self._rng = rng
        self.selection: PathSelection | None = None  # None: by rotation
        self._on_change = on_change
        self._on_made = on_made
        self.min_active = max(1, min_active)
        self._by_value: dict[int, Ev] = {}
        self.floor_hits = 0  # losses that only set SKIP because of the floor
        self.skips_ignored = 0  # marks ignored because most of the set was in SKIP already
        self.changes = 0  # changes of the set of active EVs
        self._is_lazy = False
        grouped: dict[int, list[Ev]] = {}
        for ev in evs:
            self._by_value[ev.value] = ev
            grouped.setdefault(ev.plane, []).append(ev)
        self._planes: dict[int, Plane] = {}
        self._plane_list: list[Plane] = []
        for number, members in grouped.items():
            plane = self._planes[number] = Plane(number, members, min(active_per_plane, len(members)))
            for ev in members[: plane.target]:
                self._join(plane, ev)
            self._plane_list.append(plane)
        for factory in factories:
            plane = self._planes[factory.plane] = Plane(factory.plane, [], min(active_per_plane, factory.left), factory)
            self._plane_list.append(plane)

    # --- those of a set whose paths are known, made one by one as packets take them -----------------

    def make_lazily(self) -> None:
        """Make EVs lazily, all at the first access besides `take` and `find`: for factories without random draws."""
        self._is_lazy = True
        self.changes += sum([plane.target for plane in self._plane_list])

    def complete(self) -> None:
        """Make all EVs that were deferred; the set is then as if they had been made with it."""
        if not self._is_lazy:
            return
        for plane in self._plane_list:
            while plane.factory is not None:
                ev = self._next_of(plane, plane.factory)
                if len(plane.active) < plane.target:
                    self._join(plane, ev)
        self._is_lazy = False
        self._by_value = {ev.value: ev for plane in self._plane_list for ev in plane.evs}

    @property
    def planes(self) -> dict[int, Plane]:
        """Planes by number, with all their EVs but those that are still to be drawn."""
        self.complete()
        return self._planes

    @property
    def by_value(self) -> dict[int, Ev]:
        """All EVs by value, but those that are still to be drawn."""
        self.complete()
        return self._by_value

    @property
    def plane_list(self) -> list[Plane]:
        """Planes, for readers of number, `up` and `usable` only."""
        return self._plane_list

    def find(self, value: int) -> Ev | None:
        """Return the EV with this value that packets have used."""
        return self._by_value.get(value)

    def weight_planes(self, rates: Mapping[int, float]) -> None:
        """Weight planes by their rates: packets of slow planes count for more, in sixtieths."""
        fastest = max(rates.values())
        for number, plane in self._planes.items():
            plane.step = max(1, round(_PACKET_UNITS * fastest / rates[number]))

    def fill(self, now: float) -> None:
        """Activate an EV in every plane that has none and can have one."""
        for plane in self._plane_list:
            if not plane.active:
                self._grow(plane, now)

    # --- selection --------------------------------------------------------------------------------

    def usable(self, plane_number: int) -> bool:
        """Return True if this plane can send a packet."""
        plane = self._planes.get(plane_number)
        return plane is not None and plane.up and bool(plane.active)

    def may_retransmit(self, plane_number: int, avoid: Ev | None) -> bool:
        """Return True if it is this plane's turn for a retransmission: no plane gets ahead of another.

        Planes that have only `avoid` do not count.
        """
        plane = self.planes[plane_number]
        share = plane.share
        for other in self._plane_list:
            if other.share < share and other.up and (other.unmade or any(ev is not avoid for ev in other.active)):
                return False
        return True

    def take_for_retransmission(self, plane: int, now: float, lost_ev: Ev | None, avoid_plane: int) -> Ev | None:
        """Return the EV for a retransmission in this plane; None if it has none but `lost_ev`, or is not in turn.

        `avoid_plane`: use any plane but this one, where there is another; 0: use the planes in turn.
        """
        if not self.usable(plane):
            return None
        if avoid_plane:
            if avoid_plane == plane and any(self.usable(other) for other in self.planes if other != plane):
                return None
        elif not self.may_retransmit(plane, lost_ev):
            return None
        ev = self.select(plane, now, lost_ev)
        if ev is None and not self.has_other(lost_ev):
            ev = self.select(plane, now)
        return ev

    def take(self, plane_number: int, now: float) -> Ev | None:
        """Return the EV for new data in this plane; None if it has none, or if another plane has sent fewer packets."""
        plane = self._planes.get(plane_number)
        if plane is None or not plane.up:
            return None
        share = plane.share
        for other in self._plane_list:
            if other.share < share and other.up and other.active:
                return None
        ev = self._next_ev(plane, None, now)
        if ev is not None:
            plane.share = share + plane.step
        return ev

    def select(self, plane_number: int, now: float, avoid: Ev | None = None) -> Ev | None:
        """Return the EV for the next packet in this plane; None if there is none but `avoid`.

        An EV in SKIP that is passed over becomes GOOD, one per call, and is used only if there is no other.
        """
        plane = self.planes.get(plane_number)
        return self._next_ev(plane, avoid, now) if plane is not None and plane.up else None

    def _next_ev(self, plane: Plane, avoid: Ev | None, now: float) -> Ev | None:
        if self.selection is not None:
            self.complete()
            return self._chosen(self.selection, plane, avoid, now)
        active, at = plane.active, plane.at
        if at >= len(active):
            if plane.factory is not None and (made := self._grow(plane, now)) is not None:
                plane.at = len(active)
                return made
            self.complete()
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
        self.complete()
        return self._search(plane, avoid, now)

    def _chosen(self, selection: PathSelection, plane: Plane, avoid: Ev | None, now: float) -> Ev | None:
        """Return the choice of a selection other than rotation, among all active EVs; clears one SKIP at most."""
        while plane.unmade and self._grow(plane, now) is not None:
            pass
        active = plane.active
        if not active or (len(active) == 1 and active[0] is avoid):
            return None
        ev = selection.choose(active, avoid, now)
        if ev.state is not EvState.SKIP:
            return ev
        self._step(ev, EvInput.PASSED_OVER, "skipped", now)
        if not selection.uses_skip:
            return ev
        return selection.choose(active, ev if len(active) > 1 and avoid is None else avoid, now)

    def _search(self, plane: Plane, avoid: Ev | None, now: float) -> Ev | None:
        """Slow path: begin a new pass, or pass over the next EV in turn."""
        if len(plane.active) == 1:
            self._grow(plane, now)
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
                    self._step(ev, EvInput.PASSED_OVER, "skipped", now)
            elif ev is not restored and ev is not avoid:
                return ev
        if restored is not None and restored is not avoid:
            return restored
        return next((ev for ev in plane.active if ev is not avoid), None)

    def has_other(self, ev: Ev | None) -> bool:
        """Return True if an EV other than this one can be selected in some plane."""
        up = [plane for plane in self.planes.values() if plane.up]
        return any(plane.unmade or any(other is not ev for other in plane.active) for plane in up)

    # --- feedback ---------------------------------------------------------------------------------

    def congested(self, ev: Ev, now: float, hold: float | None, reason: str) -> None:
        """A packet of this EV was marked or trimmed; `hold` in seconds as of `skip`, None: do not skip it."""
        if self.selection is not None:
            self.selection.on_mark(ev)
        if hold is not None:
            self.skip(ev, now, hold, reason)

    def skip(self, ev: Ev, now: float, hold: float, reason: str) -> None:
        """Congestion on this path: leave it out once. Further marks are ignored for `hold` seconds.

        If it is the only one in rotation in its plane, a backup takes its place.
        """
        if ev.state is not EvState.GOOD or now < ev.skip_until:
            return
        if self.selection is not None and not self.selection.uses_skip:
            return
        plane = self.planes[ev.plane]  # makes all
        if not ev.active:  # it waits as backup: feedback on earlier packets
            ev.skip_until = now + hold
            return
        if len(plane.active) == 1:
            self._grow(plane, now)
        backup = self._backup(plane, now) if len(plane.active) == 1 else None
        if backup is not None:
            ev.skip_until = now + hold
            self._swap(plane, ev, backup, reason, now)
            return
        skipped = sum([other.skipped for other in self._plane_list if other.up])
        if 2 * (skipped + 1) > self.active_count():
            self.skips_ignored += 1
            return
        ev.skip_until = now + hold
        self._step(ev, EvInput.MARKED, reason, now)

    def lost(self, ev: Ev, now: float, reason: str) -> bool:
        """Retire an EV that lost a packet; a backup of its plane takes its place. False if the floor kept it in use."""
        plane = self.planes[ev.plane]
        if next_state(ev.state, EvInput.LOST) is None or not plane.up:
            return False
        backup = self._backup(plane, now) if ev.active else None
        if ev.active and backup is None and self.active_count() <= self.min_active:
            self.floor_hits += 1
            self._step(ev, EvInput.LOST_AT_FLOOR, "floor", now)
            return False
        self._deactivate(plane, ev, now)
        ev.bad_since = now
        self._step(ev, EvInput.LOST, reason, now)
        if backup is not None:
            self._activate(plane, backup, now)
        return True

    def restore(self, ev: Ev, now: float, reason: str, marked: bool = False) -> None:
        """An ASSUMED_BAD EV recovered: back into rotation if its plane has a place, else it becomes a backup."""
        if next_state(ev.state, EvInput.RECOVERED) is None:
            return
        plane = self.planes[ev.plane]
        if len(plane.active) < plane.target:
            self._join(plane, ev)
        self._step(ev, EvInput.RECOVERED_MARKED if marked and ev.active else EvInput.RECOVERED, reason, now)

    # --- controller and ports ---------------------------------------------------------------------

    def deny(self, ev: Ev, now: float, by: Denier = Denier.CONTROL) -> None:
        """Deny an EV for the controller."""
        ev.denied_by |= by
        if next_state(ev.state, EvInput.DENY) is None:
            return
        plane = self.planes[ev.plane]
        backup = self._backup(plane, now) if ev.active else None
        self._deactivate(plane, ev, now)
        self._step(ev, EvInput.DENY, "controller", now)
        if backup is not None and backup is not ev:
            self._activate(plane, backup, now)
        self._keep_one(now)

    def allow(self, ev: Ev, now: float, by: Denier = Denier.CONTROL) -> None:
        """Lift the controller's denial of an EV."""
        ev.denied_by &= ~by
        if ev.denied_by or next_state(ev.state, EvInput.ALLOW) is None:
            return
        plane = self.planes[ev.plane]
        if len(plane.active) < plane.target:
            self._join(plane, ev)
        self._step(ev, EvInput.ALLOW, "controller", now)

    def plane_down(self, number: int, now: float, reason: str) -> None:
        """The port of this plane, here or at the peer, went down: its EVs are not used, regardless of their state."""
        plane = self.planes.get(number)
        if plane is None or not plane.up:
            return
        plane.up = False
        self.changes += 1
        plane.down_at = now
        for ev in plane.active:
            self._on_change(ev, ev.shown_state, "PORT_DOWN", reason, now)
        self._keep_one(now)

    def plane_up(self, number: int, now: float, reason: str, shadow: float) -> None:
        """The port came up: its EVs return at once, also those retired from `shadow` seconds before it went down."""
        plane = self.planes.get(number)
        if plane is None or plane.up:
            return
        plane.up = True
        self.changes += 1
        plane.share = self._level(plane)
        for ev in plane.active:
            self._on_change(ev, "PORT_DOWN", ev.shown_state, reason, now)
        for ev in plane.evs:
            if ev.state is EvState.ASSUMED_BAD and ev.bad_since >= plane.down_at - shadow:
                self.restore(ev, now, reason)

    # --- views ------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of EVs in all planes, made or not."""
        left = [plane.factory.left for plane in self._plane_list if plane.factory is not None]
        return len(self._by_value) + sum(left)

    def active_count(self) -> int:
        """Number of EVs in rotation in planes that are up."""
        return sum(len(plane.active) + plane.unmade for plane in self._plane_list if plane.up)

    # --- inside -----------------------------------------------------------------------------------

    def _keep_one(self, now: float) -> None:
        """If no EV is left, return the one retired longest ago to service before its probes succeed.

        A port or the controller can remove the last good one; a loss cannot, because of the floor.
        """
        if self.active_count():
            return
        bad = [ev for p in self._plane_list if p.up for ev in p.evs if ev.state is EvState.ASSUMED_BAD]
        if bad:
            self.restore(min(bad, key=lambda ev: ev.bad_since), now, "last resort")

    def _make_another(self, plane: Plane, now: float) -> Ev | None:
        """Make one more EV of a plane that is not denied; None if all are made."""
        factory = plane.factory
        while factory is not None and factory.left:
            ev = self._next_of(plane, factory)
            self._on_made(ev, now)
            if ev.state is EvState.GOOD:
                return ev
        return None

    def _next_of(self, plane: Plane, factory: EvFactory) -> Ev:
        """Make the next EV of a plane."""
        ev = factory.make()
        if not factory.left:
            plane.factory = None
        plane.evs.append(ev)
        self._by_value[ev.value] = ev
        return ev

    def _grow(self, plane: Plane, now: float) -> Ev | None:
        """Activate one more EV if some of the active ones are not made yet."""
        ev = self._make_another(plane, now) if plane.unmade else None
        if ev is not None:
            self._join(plane, ev)
        return ev

    def _backup(self, plane: Plane, now: float) -> Ev | None:
        """Return an EV to replace one in rotation."""
        return plane.backup() or self._make_another(plane, now)

    def _step(self, ev: Ev, given: EvInput, reason: str, now: float) -> None:
        """Apply an input to the state machine of an EV."""
        state, old = ev.state, ev.state.value
        following = next_state(state, given)
        if following is None:
            return
        ev.state = following
        self.changes += 1
        self.planes[ev.plane].skipped += (following is EvState.SKIP) - (state is EvState.SKIP)
        self._on_change(ev, old, ev.shown_state, reason, now)

    def _level(self, plane: Plane) -> int:
        """Return the send count with which a plane returns to use: that of the others."""
        return max((p.share for p in self._plane_list if p is not plane and p.usable), default=plane.share)

    def _join(self, plane: Plane, ev: Ev) -> None:
        if not plane.active:
            plane.share = self._level(plane)
        ev.active = True
        if not self._is_lazy:  # else it was counted when the set was made
            self.changes += 1
        plane.active.append(ev)

    def _activate(self, plane: Plane, ev: Ev, now: float) -> None:
        """Put a backup into rotation."""
        old = ev.shown_state
        self._join(plane, ev)
        self._on_change(ev, old, ev.shown_state, "replacement", now)

    def _swap(self, plane: Plane, ev: Ev, backup: Ev, reason: str, now: float) -> None:
        """Activate a backup in place of an EV, which becomes a backup."""
        old = ev.shown_state
        self._deactivate(plane, ev, now)
        self._on_change(ev, old, ev.shown_state, reason, now)
        self._activate(plane, backup, now)

    def _deactivate(self, plane: Plane, ev: Ev, now: float) -> None:
        if not ev.active:
            return
        at = plane.active.index(ev)
        del plane.active[at]
        if at < plane.at:
            plane.at -= 1
        ev.active = False
        self.changes += 1
        if not plane.active:
            self._grow(plane, now)
