"""Profiles of the control interface (`mrc_ctl.h`), by the numbers that programs choose: EV formats, EVs and CC.

INIT → OFFLINE → ONLINE and back. They belong to the device: all programs of a host share them. A change gives a mask of
attributes, their values, and the state to go to; it makes a new profile, which takes the place of the old one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Final, Generic, TypeVar

from typing_extensions import Self

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.mrc.ctl import Ctl
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.evs.evformat import EvField, EvFormat, Expansion, check_widths
from mrclab.hosts.mrc.evs.evprofile import (
    MAX_EVS,
    PROFILE_STEPS,
    ApiState,
    EvEvent,
    EvProfileEntry,
    Mode,
    ProfileState,
)
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.errors import VerbsError

MAX_PROFILES: Final = 64  # of each kind; numbers are 1…64
FORMATS: Final = {1: EvFormat.STEV, 2: EvFormat.SRV6, 4: EvFormat.UDP}
MODES: Final = {1: Mode.AUTO, 2: Mode.EXPLICIT, 4: Mode.GENERATED}
STATES: Final = {ApiState.GOOD: 1, ApiState.ASSUMED_BAD: 2, ApiState.DENIED: 4, ApiState.UNKNOWN: 1 << 31}
VALUE_BYTES: Final = 32
NSCC: Final = "uet-1.0-nscc"
_EVENTS: Final = {1: ApiState.GOOD, 2: ApiState.ASSUMED_BAD}
_SETTABLE: Final = {1: ApiState.GOOD, 4: ApiState.DENIED}
_STATE, _CUR_STATE, _FIRST = 1, 2, 4  # the same bits of all three masks; the last is what a profile in INIT needs
_VENDOR_CFG: Final = 1 << 31  # as well
_CC_CONFIG: Final = (
    ("disable_qa", "flag"), ("adjust_bytes_threshold", "int"), ("adjust_period_threshold", "ns"), ("base_rtt", "ns"),
    ("eta", "float"), ("fi", "float"), ("fi_scale", "float"), ("gamma", "float"), ("max_md_jump", "float"),
    ("max_cwnd", "int"), ("qa_gate", "int"), ("qa_threshold", "ns"), ("target_delay", "ns"),
)  # fmt: skip

Entry = tuple[bytes, int, bytes, int, int, int]
"""Argument of an operation on EVs: value, port, new value, new port, state, flags."""

Field = tuple[int, int, int, int, int]
"""Width, initial value, minimum, maximum and mask of a field."""


class EvOp(IntEnum):
    """enum mrc_ctl_ev_op."""

    REPLACE = 0
    MODIFY_STATE = 1
    QUERY_STATE = 2
    QUERY_ARRAY = 3


class EvProfileMask(IntFlag):
    """enum mrc_ctl_ev_profile_attr_mask."""

    STATE = _STATE
    CUR_STATE = _CUR_STATE
    MODE = 4
    FMT_ID = 8
    COUNT = 16
    MIN_ACTIVE = 32
    EVENT_MASK = 64
    EV_OP = 128
    FIELDS_OP = 256
    VENDOR_CFG = _VENDOR_CFG


def invalid(text: str) -> VerbsError:
    """EINVAL."""
    return VerbsError("EINVAL", text)


# --- all kinds --------------------------------------------------------------------------------------------------------


@dataclass
class CtlProfile:
    """Common fields of the three kinds.

    `attributes` are fields by their bit of the kind's mask, `online` those that an ONLINE profile may change.
    """

    title: ClassVar[str]
    attributes: ClassVar[Mapping[int, str]]
    online: ClassVar[frozenset[str]] = frozenset()

    number: int
    state: ProfileState = ProfileState.INIT
    vendor: bytes = bytes(wire.VENDOR_BYTES)
    number_online: int = 0  # the transport's number of an ONLINE one; it has no EV formats

    def __str__(self) -> str:
        return f"{self.title} profile {self.number}"

    def changed(self, mask: int, to: int, current: int, values: Mapping[str, Any]) -> Self:
        """Return the profile with the values that a mask names, in its new state; EINVAL if it may not change so."""
        target = self._target(mask, to, current)
        names = [name for bit, name in self.attributes.items() if mask & bit]
        if self.state is ProfileState.ONLINE and (fixed := [name for name in names if name not in self.online]):
            raise invalid(f"{self} is ONLINE; take it OFFLINE to change its {fixed[0]}")
        return replace(self, state=target, **{name: values[name] for name in names})

    def _target(self, mask: int, to: int, current: int) -> ProfileState:
        """Return the state to go to; EINVAL for a step that does not exist, or if CUR_STATE differs."""
        if mask & _CUR_STATE and current != self.state:
            raise invalid(f"{self} is {self.state.name}, not in state {current}")
        if mask & _STATE and (self.state, to) not in PROFILE_STEPS:
            raise invalid(f"{self} cannot go from {self.state.name} to state {to}")
        target = ProfileState(to) if mask & _STATE else self.state
        if self.state is ProfileState.INIT and (target is ProfileState.INIT or not mask & _FIRST):
            raise invalid(f"{self} is in INIT: it needs its {self.attributes[_FIRST]} and the step to OFFLINE")
        return target


P = TypeVar("P", bound=CtlProfile)


class ProfileTable(Generic[P]):
    """All profiles of one kind of a host, by number."""

    def __init__(self, kind: type[P]) -> None:
        self._kind = kind
        self.profiles = {number: kind(number) for number in range(1, MAX_PROFILES + 1)}

    def profile(self, number: int) -> P:
        """Return the profile; raise EINVAL if the number is out of range."""
        if number not in self.profiles:
            raise invalid(f"there is no {self._kind.title} profile {number}; there are 1…{MAX_PROFILES}")
        return self.profiles[number]

    def online(self, number: int) -> int | None:
        """Return the transport's number of an ONLINE profile, None for 0; EINVAL for one that is not ONLINE."""
        return self.ready(number).number_online if number else None

    def ready(self, number: int) -> P:
        """Return an ONLINE profile; EINVAL for one that is not ONLINE."""
        profile = self.profile(number)
        if profile.state is not ProfileState.ONLINE:
            raise invalid(f"{profile} is {profile.state.name}; bring it ONLINE first")
        return profile

    def enter(self, profile: P) -> None:
        """Put a profile in the place of the one with its number; in INIT it has nothing."""
        number = profile.number
        self.profiles[number] = self._kind(number) if profile.state is ProfileState.INIT else profile


# --- congestion control -----------------------------------------------------------------------------------------------


@dataclass
class CcProfile(CtlProfile):
    """A congestion control profile; `algorithm` empty: none."""

    title: ClassVar[str] = "congestion control"
    # enum mrc_ctl_cc_profile_attr_mask
    attributes: ClassVar[Mapping[int, str]] = {4: "algorithm", 8: "config", _VENDOR_CFG: "vendor"}

    algorithm: str = ""
    config: list[int] | None = None  # the struct's fields in order, floats by their bits; None: not configured yet

    def parameters(self) -> dict[str, Any]:
        """The parameters of the transport's controller. A field that is 0 keeps the lab's scaled default."""
        found: dict[str, Any] = {}
        for (name, kind), number in zip(_CC_CONFIG, self.config or (), strict=False):
            if not number:
                continue
            if kind == "flag":
                found[name] = True
            elif kind == "ns":
                found[name] = number * 1e-9
            else:
                found[name] = struct.unpack("=f", struct.pack("=I", number))[0] if kind == "float" else number
        return found


class CcProfiles(ProfileTable[CcProfile]):
    """All congestion control profiles of a host."""

    def __init__(self, ctl: Ctl) -> None:
        super().__init__(CcProfile)
        self._ctl = ctl

    def modify(self, number: int, mask: int, to: int, current: int, **values: Any) -> None:
        """mrc_ctl_modify_cc_profile."""
        made = self.profile(number).changed(mask, to, current, values)
        if made.algorithm not in {"", NSCC}:
            raise invalid(f"there is no congestion control {made.algorithm!r}; there is {NSCC}")
        if made.state is ProfileState.OFFLINE and made.number_online:
            self._ctl.destroy_cc_profile(made.number_online)
            made.number_online = 0
        elif made.state is ProfileState.ONLINE and not made.number_online:
            if made.config is None:
                raise invalid(f"{made} needs its configuration before it goes ONLINE")
            parameters = made.parameters() if made.algorithm else {}
            made.number_online = self._ctl.create_cc_profile(made.algorithm or "none", **parameters)
        self.enter(made)


# --- EV formats -------------------------------------------------------------------------------------------------------


@dataclass
class FormatProfile(CtlProfile):
    """An EV format: the places of an expanded EV."""

    title: ClassVar[str] = "EV format"
    # enum mrc_ctl_ev_fmt_profile_attr_mask
    attributes: ClassVar[Mapping[int, str]] = {4: "mode", 8: "widths", _VENDOR_CFG: "vendor"}

    mode: int = 0
    widths: tuple[int, ...] = ()

    def expansion(self, fields: Sequence[Field]) -> Expansion | None:
        """Return the expansion of a program's fields; a maximum of 0 under mask bits means no limit."""
        if not fields:
            return None
        if len(fields) > len(self.widths):
            raise VerbsError("E2BIG", f"{len(fields)} fields; {self} has {len(self.widths)}")
        made = [
            EvField(width, init, low, high if high or low else None, mask) for width, init, low, high, mask in fields
        ]
        return Expansion(FORMATS[self.mode], made, self.widths)

    def expanded(self, fields: Sequence[Field], value: bytes) -> bytes:
        """Return an EV of 32 bytes as in packets: expanded, or unchanged without fields."""
        expansion = self.expansion(fields)
        size = FORMATS[self.mode].value
        if expansion is None:
            if any(value[size:]):
                raise invalid(f"EV value {value.hex()} is longer than the {size} bytes of its format")
            return value[:size]
        beyond = 8 * VALUE_BYTES - expansion.bits
        if int.from_bytes(value, "big") & (1 << beyond) - 1:
            raise invalid(f"EV value {value.hex()} has bits beyond the {expansion.bits} that its fields take")
        return expansion.expand(int.from_bytes(value, "big") >> beyond)


# --- EVs --------------------------------------------------------------------------------------------------------------


@dataclass
class ProgramEvProfile(CtlProfile):
    """An EV profile of a program."""

    title: ClassVar[str] = "EV"
    attributes: ClassVar[Mapping[int, str]] = {
        EvProfileMask.MODE: "mode", EvProfileMask.FMT_ID: "format", EvProfileMask.COUNT: "count",
        EvProfileMask.MIN_ACTIVE: "min_active", EvProfileMask.EVENT_MASK: "events", EvProfileMask.FIELDS_OP: "fields",
        _VENDOR_CFG: "vendor",
    }  # fmt: skip
    online: ClassVar[frozenset[str]] = frozenset({"events", "fields", "vendor"})

    mode: int = 0
    format: int = 0
    count: int = 0
    min_active: int = 0
    events: int = 0
    fields: list[Field] = field(default_factory=list)
    entries: list[EvProfileEntry] = field(default_factory=list)

    @property
    def event_mask(self) -> frozenset[ApiState]:
        """States of which the program requests events."""
        return frozenset(state for bit, state in _EVENTS.items() if self.events & bit)

    def find(self, port: int, value: bytes | None) -> list[EvProfileEntry]:
        """Return the entries with an EV."""
        return [entry for entry in self.entries if (entry.port, entry.value) == (port, value)]

    def missing(self, port: int, value: bytes) -> VerbsError:
        """ENOENT for an EV."""
        return VerbsError("ENOENT", f"{self} has no EV {value.hex()} on port {port}")


class EvProfiles(ProfileTable[ProgramEvProfile]):
    """All EV profiles and EV formats of a host."""

    def __init__(self, endpoint: MrcEndpoint, ctl: Ctl, deliver: Callable[[EvEvent], None], loop: Loop) -> None:
        super().__init__(ProgramEvProfile)
        self._endpoint, self._ctl, self._deliver, self._loop = endpoint, ctl, deliver, loop
        self.formats = ProfileTable(FormatProfile)

    def free(self) -> int:
        """EVs that profiles may still use."""
        return MAX_PROFILES * MAX_EVS - sum(profile.count for profile in self.profiles.values())

    def modify_format(self, number: int, mask: int, to: int, current: int, **values: Any) -> None:
        """mrc_ctl_modify_ev_fmt_profile; EBUSY for a step while an ONLINE EV profile has this format."""
        before = self.formats.profile(number)
        for profile in self.profiles.values() if mask & _STATE and before.state is ProfileState.ONLINE else ():
            if profile.state is ProfileState.ONLINE and profile.format == number:
                raise VerbsError("EBUSY", f"{profile} is ONLINE with this format")
        made = before.changed(mask, to, current, values)
        if made.mode not in FORMATS:
            raise invalid(f"there is no EV format mode {made.mode}")
        if made.widths or mask & 8:
            check_widths(FORMATS[made.mode], made.widths)
        if made.state is ProfileState.ONLINE and not made.widths:
            raise invalid(f"{made} has no fields yet")
        self.formats.enter(made)

    def modify(
        self, number: int, mask: EvProfileMask, to: int, current: int, op: int, entries: Sequence[Entry], **values: Any
    ) -> None:
        """mrc_ctl_modify_ev_profile; `entries` are arguments of the operation `op`."""
        profile = self.profile(number)
        made = profile.changed(mask, to, current, values)
        operates = bool(mask & EvProfileMask.EV_OP)
        rebuilt = bool(mask & EvProfileMask.FIELDS_OP) or (operates and op == EvOp.REPLACE)
        ends = bool(made.number_online) and (rebuilt or made.state is ProfileState.OFFLINE)
        if ends and (users := self._ctl.ev_profile(made.number_online).users):
            raise VerbsError("EBUSY", f"{profile} serves {users} QPs; destroy them first")
        if rebuilt or not made.number_online:  # the transport shares those of an ONLINE profile
            made.entries = [replace(entry) for entry in made.entries]
        self._complete(made, profile, mask)
        if operates:
            self._apply_ev_op(made, op, entries)
        if ends:
            self._ctl.destroy_ev_profile(made.number_online)
            made.number_online = 0
        if made.number_online:
            self._ctl.ev_profile(made.number_online).event_mask = made.event_mask
        elif made.state is ProfileState.ONLINE:
            self._bring_online(made)
        self.enter(made)

    def _complete(self, made: ProgramEvProfile, before: ProgramEvProfile, mask: EvProfileMask) -> None:
        """Check what a profile was given, and make its entries where that changes them."""
        mode = MODES.get(made.mode)
        if mode is None:
            raise invalid(f"there is no EV mode {made.mode}")
        if mode is not Mode.AUTO:
            self.formats.ready(made.format)
        elif not mask & EvProfileMask.COUNT:
            made.count = made.count or MAX_EVS
        if made.count > MAX_EVS:
            raise VerbsError("E2BIG", f"{made.count} EVs; a profile has at most {MAX_EVS}")
        if made.count < 1 or made.min_active > made.count:
            counts = f"{made.count} EVs, of which {made.min_active} must stay active"
            raise invalid(f"{counts}: give a count, and no more than that")
        if made.events & ~sum(_EVENTS):
            raise invalid(f"events can be requested for GOOD and ASSUMED_BAD, not for {made.events:#x}")
        reset = (made.mode, made.format, made.count) != (before.mode, before.format, before.count)
        if reset:
            made.entries = [EvProfileEntry() for _ in range(made.count)] if mode is Mode.EXPLICIT else []
        if mask & EvProfileMask.FIELDS_OP:
            fmt = self.formats.profile(made.format)
            fmt.expansion(made.fields)
            for entry in made.entries:
                if entry.value is not None:
                    entry.expanded = fmt.expanded(made.fields, entry.value)
        if mode is Mode.GENERATED and made.fields and (reset or mask & EvProfileMask.FIELDS_OP):
            self._generate(made)

    def _generate(self, profile: ProgramEvProfile) -> None:
        expansion = self.formats.profile(profile.format).expansion(profile.fields)
        assert expansion is not None
        ports = [port.number for port in self._endpoint.config.ports]
        profile.entries = []
        for n in range(profile.count):
            bits = expansion.draw(self._endpoint.rng)
            value = (bits << 8 * VALUE_BYTES - expansion.bits).to_bytes(VALUE_BYTES, "big")
            profile.entries.append(EvProfileEntry(ports[n % len(ports)], value, ApiState.GOOD, expansion.expand(bits)))

    def _bring_online(self, profile: ProgramEvProfile) -> None:
        mode = MODES[profile.mode]
        empty = len(profile.find(0, None))
        if empty or (mode is not Mode.AUTO and not profile.entries):
            raise invalid(f"{profile} has {empty or profile.count} unpopulated entries")
        fmt = EvFormat.STEV if mode is Mode.AUTO else FORMATS[self.formats.profile(profile.format).mode]
        denied = [entry for entry in profile.entries if entry.state is ApiState.DENIED]
        profile.number_online = self._ctl.add_ev_profile(
            Mode.EXPLICIT if profile.entries else Mode.AUTO, fmt, profile.count, profile.min_active, profile.event_mask,
            state=ProfileState.ONLINE, entries=profile.entries, hashed=True,
            denied={(entry.port, entry.value) for entry in denied if entry.value is not None},
            listener=lambda event: self._deliver(event._replace(profile=profile.number)),
        ).number  # fmt: skip

    # --- operations on EVs --------------------------------------------------------------------------------------------

    def _apply_ev_op(self, profile: ProgramEvProfile, op: int, entries: Sequence[Entry]) -> None:
        for value, port, new_value, new_port, state, flags in entries:
            if op not in {EvOp.REPLACE, EvOp.MODIFY_STATE}:
                raise invalid(f"EV operation {op} changes nothing; it belongs to the query")
            if op == EvOp.REPLACE and MODES[profile.mode] is not Mode.EXPLICIT:
                raise invalid(f"{profile} is not explicit; its EVs cannot be replaced")
            requested = _SETTABLE.get(state or int(op == EvOp.REPLACE))
            if requested is None:
                raise invalid(f"an EV can be set to GOOD or DENIED, not to {state:#x}")
            if op == EvOp.REPLACE:
                self._replace(profile, (port, value), (new_port, new_value), requested, bool(flags & 1))
            else:
                self._set_state(profile, port, value, requested)

    def _replace(
        self,
        profile: ProgramEvProfile,
        old: tuple[int, bytes],
        new: tuple[int, bytes],
        state: ApiState,
        all_copies: bool,
    ) -> None:
        port, value = new
        self._ctl.query_port(port)
        expanded = self.formats.profile(profile.format).expanded(profile.fields, value)
        found = profile.find(0, None) if old == (0, bytes(VALUE_BYTES)) else profile.find(*old)
        if not found:
            raise profile.missing(*old)
        for entry in found if all_copies else found[:1]:
            entry.port, entry.value, entry.expanded, entry.state = port, value, expanded, state

    def _set_state(self, profile: ProgramEvProfile, port: int, value: bytes, state: ApiState) -> None:
        if profile.number_online:
            api_value = value if profile.entries else value[:4]
            self._ctl.modify_ev_state(profile.number_online, port, api_value, state, self._loop.now)
            return
        found = profile.find(port, value)
        if not found:
            raise profile.missing(port, value)
        for entry in found:
            entry.state = state

    def states(self, profile: ProgramEvProfile, evs: Iterable[tuple[int, bytes]]) -> list[int]:
        """QUERY_EV_STATE: the controller's states, or ASSUMED_BAD if a QP found that; ENOENT for an unknown EV."""
        found, in_use = [], self._in_use(profile)
        for port, value in evs:
            known = [entry.state for entry in profile.find(port, value)]
            used = in_use.get((port, value if profile.entries else value[:4]), [])
            if not known and not used:
                raise profile.missing(port, value)
            bad = ApiState.ASSUMED_BAD in used and ApiState.DENIED not in known
            state = ApiState.DENIED if ApiState.DENIED in known else (known or used)[0]
            found.append(STATES[ApiState.ASSUMED_BAD if bad else state])
        return found

    def _in_use(self, profile: ProgramEvProfile) -> dict[tuple[int, bytes], list[ApiState]]:
        """Return the EVs of all QPs of a profile, and the state of each."""
        found: dict[tuple[int, bytes], list[ApiState]] = {}
        for qp in self._ctl.qps_of(profile.number_online):
            for port, value, state in self._ctl.query_ev_state(qp.qpn):
                found.setdefault((port, value), []).append(state)
        return found

    def array(self, profile: ProgramEvProfile) -> list[tuple[bytes, int, int]]:
        """QUERY_EV_ARRAY: value, port and state of each entry; for an AUTO profile those that QPs drew."""
        if not profile.entries:
            drawn = self._in_use(profile)
            return [
                (value.ljust(VALUE_BYTES, b"\0"), port, STATES[states[0]]) for (port, value), states in drawn.items()
            ]
        states = iter(self.states(profile, [(e.port, e.value) for e in profile.entries if e.value is not None]))
        return [
            (bytes(VALUE_BYTES), e.port, STATES[e.state]) if e.value is None else (e.value, e.port, next(states))
            for e in profile.entries
        ]
