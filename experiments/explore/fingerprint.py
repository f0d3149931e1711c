"""Fingerprint of a state: states are equal if everything is equal that affects what the hosts do next.

Every attribute is compared unless a rule below says otherwise, so that a new attribute of the transport can only keep
states apart. Times are relative to now, and all times longer ago than any timer are equal; statistics are ignored; of
transmissions the order is compared, not the number; ids are relative to the newest.
"""

from __future__ import annotations

import functools
import marshal
from array import array
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from hashlib import blake2b
from math import inf
from types import FunctionType, MethodType
from typing import Any, Final

from mrclab.experiments.explore.copying import SHARED
from mrclab.experiments.explore.draws import Draws
from mrclab.experiments.explore.packets import Flight
from mrclab.experiments.explore.system import System
from mrclab.hosts.mrc.evs.probing import Prober
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.recovery.sent import PacketState, SentPacket
from mrclab.hosts.mrc.requestor import MrcRequestor
from mrclab.hosts.mrc.settings import RETRY_ENDLESS
from mrclab.hosts.rdma.packets.psn import PSN_MASK

_SCALARS: Final = frozenset({int, bool, str, bytes, type(None)})
_OLD_RTTS: Final = 40.0
_STUCK_TIMES: Final = 25  # times _OLD_RTTS: a send time as old as this is never read again
_STAMP_MASK: Final = 0xFFFF
_FLIGHT, _ACKED = PacketState.FLIGHT, PacketState.ACKED

_IGNORED: Final = frozenset({
    "now", "log", "_rng", "secrets", "_codec", "own", "_own", "config", "_config", "configs", "world",
    "settings", "_settings", "parameters", "_facts", "stats", "_stats", "_fingerprint", "max_gap", "events",
    "on_work", "_began", "_secrets", "endpoint", "_endpoint", "verbs", "_verdict", "counters",
    "placed_bytes", "parser", "_address", "_control_paths", "_path", "_paths", "_ends", "source",
    "launched", "sent_data", "sent_frames", "network", "hosts", "targets", "sent", "acked", "nacked", "marked",
    "retransmitted", "floor_hits", "skips_ignored", "changes", "_queued", "_wheel", "not_before",
    "_serial", "_on_change", "_on_made", "_ports_sampled", "memory", "_memory", "_cqs", "send_cq", "recv_cq",
    "by_plane", "profiles", "op", "peer_text", "text", "address", "address_bytes",
    "template", "host", "cqs", "base_rtt", "region", "view",
})  # fmt: skip
"""Attributes excluded from the fingerprint: constants, statistics, and derived values."""

_TIMES: Final = frozenset({
    "last_progress", "last_sent", "newest_arrived", "last_placed", "last_sack_probe", "qa_endtime", "last_adjust_time",
    "last_dec_time", "deadline",
})  # fmt: skip
_TIME_ENDS: Final = ("_at", "_since", "_until", "_from")
"""Endings of the names of floats that are times as well."""


class Fingerprint:
    """Fingerprint of one state: 16 bytes."""

    def __init__(self, system: System) -> None:
        self._now = system.now
        self._old = -round(_OLD_RTTS * system.base_rtt * 1e12)
        self._stamp = int(system.now * 1e6)
        self.tokens: list[Any] = []  # parts of the fingerprint, by which one sees why two differ
        self._seen: dict[int, int] = {}
        self._ranks: dict[int, int] = {}
        self._keep: list[Any] = []  # visited objects: while they exist, no other gets their id
        self._live = {(one.source, one.id) if one.id_kind == "probe" else (one.destination, one.id) for one in
                      system.network if one.id_kind in {"probe", "reply"}}  # fmt: skip
        self._host = 0
        self._next_ids: dict[int, int] = {}
        youngest = min((one.due - system.base_rtt / 2 for one in system.network), default=system.now)
        self._stamps_matter = bool(system.down) or system.now - youngest > _OLD_RTTS * system.base_rtt
        self._max_hold = round(system.base_rtt * 1e6)  # µs: no peer holds an answer for longer
        self._answered = {(one.subject, one.stamp) for one in system.network if one.stamp}
        self._first_psn = 0  # of the requestor that is visited
        for index, host in enumerate(system.hosts):
            self._host = index
            self._add(host)
            self._timers(host.timers)
        self._flights(system)
        self._add({name: value for name, value in system.__dict__.items() if name not in _IGNORED})

    def digest(self) -> bytes:
        """The fingerprint."""
        return blake2b(marshal.dumps(self.tokens, 2), digest_size=16).digest()

    # --- values -----------------------------------------------------------------------------------

    def _time(self, value: float) -> Any:
        if value in {inf, -inf}:
            return value
        return max(round((value - self._now) * 1e12), self._old)

    def _add(self, item: Any) -> None:
        kind = item.__class__
        if kind in _SCALARS:
            self.tokens.append(item)
            return
        _adder(kind)(self, item)

    def known(self, item: Any) -> bool:
        """Return True if an object was visited; then a reference replaces it."""
        at = self._seen.get(id(item))
        if at is not None:
            self.tokens.append(("&", at))
            return True
        self._seen[id(item)] = len(self._seen)
        self._keep.append(item)
        return False

    def sequence(self, item: Any) -> None:
        """Add a sequence in its order."""
        if isinstance(item, list) and self.known(item):
            return
        self.tokens.append(len(item))
        for one in item:
            self._add(one)

    def mapping(self, item: dict[Any, Any]) -> None:
        """Add a mapping in its order, which a loop over it depends on."""
        if self.known(item):
            return
        self.tokens.append(len(item))
        for key, value in item.items():
            self._add(key)
            self._add(value)

    def function(self, item: FunctionType) -> None:
        """Add a function by its name and closure."""
        self.tokens.append(item.__qualname__)
        for cell in item.__closure__ or ():
            self._add(cell.cell_contents)

    def method(self, item: MethodType) -> None:
        """Add a method by its name and object."""
        self.tokens.append(item.__func__.__qualname__)
        self._add(item.__self__)

    def partly(self, item: partial[Any]) -> None:
        """Add a partial by its function and arguments."""
        self._add(item.func)
        self._add(list(item.args))

    # --- objects ----------------------------------------------------------------------------------

    def object(self, item: Any, names: tuple[str, ...]) -> None:
        """Add all attributes of an object, each by its rule."""
        if self.known(item):
            return
        kind = item.__class__
        self.tokens.append(kind.__name__)
        if kind is Prober:
            self._next_ids[self._host] = item._next_id
        elif kind is MrcRequestor:
            self._rank(item)
        elif kind is SentPacket:
            self._packet(item)
            return
        own = getattr(item, "__dict__", None)
        key = kind, len(own) if own else 0
        plan = _PLANS.get(key)
        if plan is None:
            plan = _PLANS[key] = _plan(kind.__name__, names + tuple(own or ()))
        for name, rule in plan:
            value = getattr(item, name, None)
            if rule is None:
                self._add(value)
            else:
                rule(self, item, value)

    def a_time(self, _: Any, value: Any) -> None:
        """Add a time relative to now; a value that is no float is added as it is."""
        if isinstance(value, float):
            self.tokens.append(self._time(value))
        else:
            self._add(value)

    def _rank(self, requestor: MrcRequestor) -> None:
        """Number the transmissions of a requestor in their order."""
        self._first_psn = requestor.first_psn
        packets = {id(packet): packet for packet in requestor.recovery.window._slots if packet.seq >= 0}
        ordered = sorted(packets.values(), key=lambda packet: packet.order)
        self._ranks.update({id(packet): rank for rank, packet in enumerate(ordered)})

    def _packet(self, packet: Any) -> None:
        """Add a packet; the times of its copies only while a frame in flight may refer to them."""
        state, tokens = packet.state, self.tokens
        tokens += [packet.seq, state.name, self._ranks.get(id(packet)), min(packet.sends, 2), packet.sampled]
        if packet.seq < 0:
            return
        tokens += [packet.settled, packet.disproved, packet.offset, packet.size, packet.op, packet.nominal]
        if state is _FLIGHT:
            tokens.append(max(round((packet.sent_at - self._now) * 1e12), _STUCK_TIMES * self._old))
        else:
            tokens.append(self._time(packet.sent_at))
        psn = packet.seq + self._first_psn & PSN_MASK
        tokens.append(self._copy(psn, packet.ts, state is _FLIGHT))
        tokens.append(self._copy(psn, packet.previous_ts) if packet.sends > 1 else None)
        tokens.append(packet.lost_by)
        self._add(getattr(packet, "ev", None))
        self._add(packet.lost_ev)
        self._add(getattr(packet, "message", None) if state is not _ACKED else None)
        for name in packet.__slots__:
            if name not in _OF_PACKETS:
                self._add(getattr(packet, name, None))

    def _copy(self, psn: int, stamp: int, matters: bool = False) -> int | None:
        """Return when a copy of a packet was sent; None where nothing on its channel can be it, or its answer.

        The PSN counts: stamps come round every 65 ms, so that a frame of another packet may have that of an old copy.
        """
        if (
            matters
            or self._stamps_matter
            or any(subject == psn and one - stamp & _STAMP_MASK <= self._max_hold for subject, one in self._answered)
        ):
            return self._stamp - stamp & _STAMP_MASK
        return None

    def entries(self, _: Any, queue: Any) -> None:
        """Add the transmissions in a queue that are in flight."""
        self.tokens.append("[")
        for entry in queue:
            self._entry(entry)

    def _entry(self, entry: Any) -> None:
        order, packet = entry
        if packet.order == order and packet.state is _FLIGHT:
            self._add(packet)

    def suspects(self, _: Any, queue: Any) -> None:
        """Add suspected packets in flight, each with the time at which it became one."""
        self.tokens.append("[")
        for at, (order, packet) in queue:
            if packet.order == order and packet.state is _FLIGHT:
                self.tokens.append(self._time(at))
                self._add(packet)

    def unshown(self, _: Any, blocks: Any) -> None:
        """Add packets that no SACK has covered, by bitmap block."""
        for block, waiting in blocks.items():
            left = [(entry, rule) for entry, rule in waiting if entry[1].order == entry[0]]
            for entry, rule in left:
                if entry[1].state is _FLIGHT:
                    self.tokens += [block, rule]
                    self._entry(entry)

    def times(self, _: Any, values: Any) -> None:
        """Add a list of times."""
        self.tokens += [self._time(value) for value in values]

    def skip(self, _: Any, value: Any) -> None:
        """Leave this part out of the fingerprint."""

    def planes(self, evs: Any, value: Any) -> None:
        """Add the planes of an EV set, with their shares above the smallest."""
        shares = [plane.share for plane in value.values()]
        self.tokens += [share - min(shares) for share in shares]
        self._add(value)

    def retries(self, loss: Any, value: int) -> None:
        """Add the retries where there is a limit to them."""
        endless = loss._settings.retry_exponential >= RETRY_ENDLESS
        self.tokens.append(0 if endless else value)

    def probes(self, prober: Any, value: Any) -> None:
        """Add EV probes that are in flight, or whose reply is."""
        for number, probe in value.items():
            if (self._host, number) in self._live:
                self.tokens.append(prober._next_id - number & _STAMP_MASK)
                self.tokens += [self._time(probe.sent_at), probe.path_test]
                self._add(probe.ev)

    def probe_id(self, _: Any, value: int | None) -> None:
        """Add whether a reply to this probe is still expected."""
        self.tokens.append(value is not None and (self._host, value) in self._live)

    def _timers(self, timers: Any) -> None:
        """Add armed timers in the order in which they fire."""
        self.tokens.append("timers")
        for entry, _, timer in sorted(timers._heap, key=lambda item: (item[2].deadline, item[0], item[1])):
            if entry == timer._queued and timer.armed:
                self.tokens.append(self._time(timer.deadline))
                if id(timer) in self._seen:
                    self.tokens.append(self._seen[id(timer)])
                else:
                    self.tokens.append(type(timer).__name__)

    def _flights(self, system: System) -> None:
        """Add frames in flight; their order counts within a traffic class and plane only."""
        found = []
        before: dict[tuple[int, int, bool], int] = {}
        for one in sorted(system.network, key=lambda one: (one.due, one.serial)):
            place = 0
            if not system.world.any_order:
                channel = one.destination, one.plane, one.dscp == h.Dscp.CONTROL
                place = before[channel] = before.get(channel, 0) + 1
            stamp = self._stamp - one.stamp & _STAMP_MASK if one.stamp else -1
            due = max(round((one.due - self._now) * 1e12), 0)
            found.append(
                (one.destination, one.port, one.content, stamp, one.id_kind, self._id(system, one), due, place)
            )
        self.tokens.append(sorted(found))

    def _id(self, system: System, one: Flight) -> int:
        """Return the id of a frame relative to the newest of its counter."""
        if one.id_kind in {"probe", "reply"}:
            owner = one.source if one.id_kind == "probe" else one.destination
            return self._next_ids.get(owner, 0) - one.id & _STAMP_MASK
        if one.id_kind.startswith("request") and not system.world.id_mask:
            owner = one.source if one.id_kind == "request" else one.destination
            newest: int = system.hosts[owner].ops._next_id
            return newest - one.id & _STAMP_MASK
        return one.id


_Rule = Callable[[Fingerprint, Any, Any], None]


def _up_to(most: int) -> _Rule:
    """Return the rule of a number that has no further effect from `most` on."""
    return lambda fingerprint, _, value: fingerprint.tokens.append(min(value, most))


_RULES: Final[dict[tuple[str, str], _Rule]] = {
    ("LossDetector", "_unexamined"): Fingerprint.entries,
    ("LossDetector", "_examined"): Fingerprint.entries,
    ("LossDetector", "_suspects"): Fingerprint.suspects,
    ("LossDetector", "_unshown"): Fingerprint.unshown,
    ("LossDetector", "retries"): Fingerprint.retries,
    ("LossDetector", "_expiries"): _up_to(32),
    ("Ev", "fifo"): Fingerprint.entries,
    ("Ev", "lost"): _up_to(8),
    ("Plane", "share"): Fingerprint.skip,
    ("EvSet", "_planes"): Fingerprint.planes,
    ("Peer", "data_at"): Fingerprint.times,
    ("MrcRequestor", "_order"): Fingerprint.skip,
    ("Prober", "_next_id"): Fingerprint.skip,
    ("Prober", "_sent"): Fingerprint.probes,
    ("Prober", "_overdue"): Fingerprint.probes,
    ("Prober", "sack_backoff"): _up_to(1 << 10),
    ("ProbeState", "probe_id"): Fingerprint.probe_id,
    ("Timers", "_heap"): Fingerprint.skip,
    ("LossRecovery", "_proven"): Fingerprint.skip,  # empty between two packets
}
_NOT_IGNORED: Final = frozenset({("MrcMessage", "sent")})
_OF_PACKETS: Final = frozenset({
    "seq", "state", "order", "sends", "sampled", "settled", "disproved", "offset", "size", "op", "nominal", "sent_at",
    "ts", "previous_ts", "lost_by", "ev", "lost_ev", "message",
})  # fmt: skip


_PLANS: dict[tuple[type, int], list[tuple[str, _Rule | None]]] = {}


def _plan(kind: str, names: tuple[str, ...]) -> list[tuple[str, _Rule | None]]:
    """The attributes of a class that count, each with its rule."""
    found: list[tuple[str, _Rule | None]] = []
    for name in names:
        if name in _IGNORED and (kind, name) not in _NOT_IGNORED:
            continue
        is_time = name in _TIMES or name.endswith(_TIME_ENDS)
        rule = _RULES.get((kind, name), Fingerprint.a_time if is_time else None)
        if rule is not Fingerprint.skip:
            found.append((name, rule))
    return found


def _slots_of(kind: type) -> tuple[str, ...]:
    """Names of the slots of a class and of those above it."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in {"__dict__", "__weakref__"})


@functools.cache
def _adder(kind: type) -> Callable[[Fingerprint, Any], None]:
    for bases, adder in _KINDS:
        if issubclass(kind, bases):
            return adder
    names = _slots_of(kind)
    return lambda fingerprint, item: fingerprint.object(item, names)


def _token(token: Callable[[Any], Any]) -> Callable[[Fingerprint, Any], None]:
    """Return what adds a value as one token."""
    return lambda fingerprint, item: fingerprint.tokens.append(token(item))


def _size(view: memoryview) -> int | str:
    """Return the length of a view of bytes; a released one has none."""
    try:
        return len(view)
    except ValueError:
        return "released"


_KINDS: Final[tuple[tuple[Any, Callable[[Fingerprint, Any], None]], ...]] = (
    (Enum, _token(lambda item: item.name)),
    ((bool, int, str, bytes, type(None)), _token(lambda item: item)),
    (float, _token(lambda item: float(f"{item:.12g}"))),  # sums of times differ in the last digits
    (Draws, _token(lambda item: item.turn)),
    (deque, Fingerprint.sequence),  # also EMPTY_QUEUE, which copies share: it is an empty one
    (SHARED, lambda *_: None),
    ((list, tuple, array), Fingerprint.sequence),
    (dict, Fingerprint.mapping),
    (bytearray, _token(len)),  # the content follows from the packets delivered
    (memoryview, _token(_size)),
    (FunctionType, Fingerprint.function),
    (MethodType, Fingerprint.method),
    (partial, Fingerprint.partly),
)


def of(system: System) -> bytes:
    """The fingerprint of a state."""
    return Fingerprint(system).digest()
