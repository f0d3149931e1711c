"""Sources of a QP's EV set: its EV profile, or random paths, drawn all at once or on demand."""

from __future__ import annotations

from array import array
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.evs.ev import Denier, Ev
from mrclab.hosts.mrc.evs.evformat import uplink_of, value_of
from mrclab.hosts.mrc.evs.evprofile import MAX_EVS, EvProfile, Mode
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.evs.plane import pick, shuffle
from mrclab.hosts.mrc.evs.selections import path_selection
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import EvProfileConfig

if TYPE_CHECKING:
    from mrclab.hosts.mrc.peers import Peer
    from mrclab.hosts.mrc.qp import MrcQueuePair

_LAZY_FROM: Final = 16  # EVs of a set from which they are made lazily


def draw_uplinks(qp: MrcQueuePair) -> array[int] | None:
    """Return the uplinks of a QP's set, plane after plane; None if the set has to be made with the QP.

    Drawn with the QP, so that later draws of its host do not depend on when the set is made.
    """
    settings, peer, rng, config = qp.settings, qp.peer, qp.endpoint.rng, qp.endpoint.config
    if qp.ev_profile is not None or config.denylist or not settings.spray or settings.share_path_failures:
        return None
    count = settings.ev.ev_count
    paths = [peer.uplinks(plane) for plane in peer.planes]
    total, many = 0, True
    for of_plane in paths:
        have = len(of_plane)
        total += min(count, have)
        many = many and 2 * count <= have
    if total > MAX_EVS:
        _check_count(qp, count)  # refuses
    drawn: list[int] = []
    for of_plane in paths:
        if many:
            drawn.append(pick(of_plane, rng))
        else:
            uplinks = list(of_plane)
            shuffle(uplinks, rng)
            drawn += uplinks[:count]
    return array("H", drawn)  # made at once: to append takes a hundred instructions more for each


def ev_set(qp: MrcQueuePair, drawn: array[int] | None) -> EvSet:
    """Return the set of the QP's EV profile if it has one, else one of the uplinks `drawn`, or drawn now."""
    made = _ev_set(qp, drawn)
    s, config = qp.settings, qp.endpoint.config
    if any(port.rate is not None for port in config.ports):
        made.weight_planes({port.plane: config.weight(port) for port in config.ports})
    made.selection = path_selection(s.path_selection, qp.endpoint.rng, s.path_config, s.base_rtt)
    return made


def apply_denials(qp: MrcQueuePair, evs: EvSet, now: float) -> None:
    """Apply the controller's denials, of denylist or profile, to a set that was drawn again."""
    config, profile = qp.endpoint.config, qp.ev_profile
    for ev in list(evs.by_value.values()):
        if config.denied(ev.plane, ev.uplink, qp.peer.text):
            evs.deny(ev, now, Denier.DENYLIST)
        if profile is not None and profile.denies(ev.path.port, ev.api_value):
            evs.deny(ev, now)


def _ev_set(qp: MrcQueuePair, drawn: array[int] | None) -> EvSet:
    policy, profile, rng = qp.settings.ev, qp.ev_profile, qp.endpoint.rng
    if profile is not None:
        evs = _profile_evs(qp, profile)
        least = profile.ev_min_active * min(len(evs), profile.ev_count) // profile.ev_count  # a pair may have fewer
        return EvSet(evs, profile.ev_count, least, rng, qp.ev_changed)
    if qp.settings.spray and _has_many_paths(qp):
        return _evs_on_demand(qp, policy, drawn)
    active = policy.active_per_plane
    if drawn is not None and len(drawn) >= _LAZY_FROM:
        return _lazy_evs(qp, policy, drawn)
    evs = _random_evs(qp, policy.ev_count, drawn)
    if not qp.settings.spray:
        plane = rng.choice(evs).plane
        evs, active = [ev for ev in evs if ev.plane == plane], 1
    return EvSet(evs, active, _least_active(qp, policy), rng, qp.ev_changed)


def _path_counts(qp: MrcQueuePair) -> list[int]:
    """Number of paths to the peer in each plane."""
    peer = qp.peer
    return [len(peer.uplinks(plane)) for plane in peer.planes]


def _has_many_paths(qp: MrcQueuePair) -> bool:
    """Return True if the set has few of many paths, which are then drawn on demand."""
    least = 2 * qp.settings.ev.ev_count
    return all(least <= count for count in _path_counts(qp))


def _least_active(qp: MrcQueuePair, policy: EvProfileConfig) -> int:
    """Return the floor of active EVs, for as many as this pair has: one for each plane inside a T0 group."""
    counts = _path_counts(qp)
    active = policy.active_per_plane
    configured = active * len(counts)
    have = sum([min(active, count) for count in counts])
    return policy.ev_min_active * have // configured


def _check_count(qp: MrcQueuePair, per_plane: int) -> None:
    found = sum([min(per_plane, count) for count in _path_counts(qp)])
    if found > MAX_EVS:
        text = f"{per_plane} EVs per plane make {found}, but a QP has at most {MAX_EVS}; use fewer per plane"
        raise VerbsError("E2BIG", text)


def _evs_on_demand(qp: MrcQueuePair, policy: EvProfileConfig, drawn: array[int] | None) -> EvSet:
    """Few of many paths: each EV is drawn and made on demand."""
    _check_count(qp, policy.ev_count)
    factories = [
        _RandomPaths(qp, port.plane, policy.ev_count, place * policy.ev_count, drawn[place] if drawn else 0)
        for place, port in enumerate(qp.endpoint.config.ports)
    ]
    active, least = policy.active_per_plane, policy.ev_min_active
    return EvSet((), active, least, qp.endpoint.rng, qp.ev_changed, factories, qp.ev_made)


def _lazy_evs(qp: MrcQueuePair, policy: EvProfileConfig, drawn: array[int]) -> EvSet:
    """Many EVs, few of which a short transfer uses: each is made with its first packet, or all at any other access."""
    factories: list[_DrawnPaths] = []
    at, count, peer = 0, policy.ev_count, qp.peer
    for plane in peer.planes:
        end = at + min(count, len(peer.uplinks(plane)))
        if end > at:
            factories.append(_DrawnPaths(peer, plane, drawn, at, end))
        at = end
    made = EvSet((), policy.active_per_plane, _least_active(qp, policy), qp.endpoint.rng, qp.ev_changed, factories)
    made.make_lazily()
    return made


def _random_evs(qp: MrcQueuePair, per_plane: int, drawn: array[int] | None = None) -> list[Ev]:
    """Equal numbers of random paths per plane; the first ones become active, the others backups."""
    evs: list[Ev] = []
    _check_count(qp, per_plane)
    at, peer = 0, qp.peer
    for plane in peer.planes:
        uplinks = list(peer.uplinks(plane))
        if drawn is None:
            shuffle(uplinks, qp.endpoint.rng)
        else:
            count = min(per_plane, len(uplinks))
            uplinks = drawn[at : at + count].tolist()
            at += count
        evs += [Ev(peer, plane, up, srv6.ev_tag(len(evs) + n)) for n, up in enumerate(uplinks[:per_plane])]
    return evs


def _profile_evs(qp: MrcQueuePair, profile: EvProfile) -> list[Ev]:
    """EVs of a profile, or for an AUTO one as many as its count, equal numbers per plane."""
    ports = {port.number: port.plane for port in qp.endpoint.config.ports}
    if profile.mode is Mode.AUTO:
        evs = _random_evs(qp, max(1, profile.ev_count // len(ports)))
    else:
        evs = []
        for entry in profile.entries:
            assert entry.value is not None
            plane = ports[entry.port]
            value = entry.expanded or entry.value
            uplink = uplink_of(profile.format, value, plane, qp.peer.uplinks(plane), profile.hashed)
            evs.append(Ev(qp.peer, plane, uplink, srv6.ev_tag(len(evs))))
    for ev, given in zip_longest(evs, profile.entries):
        ev.api_value = given.value if given else value_of(profile.format, ev.value, ev.path.destination)
    return evs


class _DrawnPaths:
    """Paths of one plane that were drawn with the QP: places `at` to `end` of all draws."""

    __slots__ = ("_at", "_drawn", "_peer", "left", "plane")

    def __init__(self, peer: Peer, plane: int, drawn: array[int], at: int, end: int) -> None:
        self.plane = plane
        self.left = end - at
        self._peer = peer
        self._drawn = drawn
        self._at = at

    def make(self) -> Ev:
        """Return the next EV."""
        at = self._at
        self._at = at + 1
        self.left -= 1
        return Ev(self._peer, self.plane, self._drawn[at], srv6.ev_tag(at))


class _RandomPaths:
    """Paths of one plane to a QP's peer, in the order of drawing, without repetition."""

    __slots__ = ("_begin", "_first", "_qp", "_taken", "left", "plane")

    def __init__(self, qp: MrcQueuePair, plane: int, count: int, first: int, begin: int) -> None:
        self.plane = plane
        self.left = count
        self._qp = qp
        self._first = first  # index of the first EV in the QP's set
        self._begin = begin  # the uplink that was drawn with the QP; 0: none
        self._taken: list[int] = []

    def make(self) -> Ev:
        """Return the next EV."""
        qp, taken = self._qp, self._taken
        uplinks = qp.peer.uplinks(self.plane)
        uplink = self._begin if self._begin and not taken else qp.endpoint.rng.choice(uplinks)
        while uplink in taken:
            uplink = qp.endpoint.rng.choice(uplinks)
        taken.append(uplink)
        self.left -= 1
        return Ev(qp.peer, self.plane, uplink, srv6.ev_tag(self._first + len(taken) - 1))
