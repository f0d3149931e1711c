"""EV profiles and EV formats of a host, by the numbers that programs choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from mrclab.hosts.agent.provider.ctlprofile import (
    FORMATS,
    MAX_PROFILES,
    MODES,
    STATES,
    VALUE_BYTES,
    EvOp,
    EvProfileMask,
    FormatProfile,
    ProfileTable,
    TransportProfile,
    TransportProfiles,
    invalid,
)
from mrclab.hosts.mrc.ctl import Ctl
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.evs.evformat import EvField, EvFormat, Expansion
from mrclab.hosts.mrc.evs.evprofile import MAX_EVS, ApiState, EvEvent, EvProfile, EvProfileEntry, Mode, ProfileState
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.errors import VerbsError

_EVENTS: Final = {1: ApiState.GOOD, 2: ApiState.ASSUMED_BAD}


@dataclass
class EvProfileChange:
    """Arguments of mrc_ctl_modify_ev_profile."""

    mask: EvProfileMask
    to: int
    current: int
    mode: int
    format: int
    count: int
    min_active: int
    events: int
    op: int
    entries: list[tuple[bytes, int, bytes, int, int, int]]  # value, port, new value, new port, state, flags
    fields: list[tuple[int, int, int, int, int]]
    vendor: bytes


@dataclass
class ProgramEvProfile(TransportProfile):
    """An EV profile of a program."""

    title: ClassVar[str] = "EV"

    mode: int = 0
    format: int = 0
    count: int = 0
    min_active: int = 0
    events: int = 0
    fields: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    entries: list[EvProfileEntry] = field(default_factory=list)


class EvProfiles(TransportProfiles[ProgramEvProfile]):
    """All EV profiles and EV formats of a host."""

    def __init__(self, endpoint: MrcEndpoint, ctl: Ctl, deliver: Callable[[EvEvent], None], loop: Loop) -> None:
        super().__init__(ProgramEvProfile)
        self._endpoint, self._ctl, self._deliver, self._loop = endpoint, ctl, deliver, loop
        self.formats = ProfileTable(FormatProfile)

    def check_format_unused(self, format_number: int) -> None:
        """Raise EBUSY if an ONLINE EV profile has this format."""
        for profile in self.profiles.values():
            if profile.state is ProfileState.ONLINE and profile.format == format_number:
                raise VerbsError("EBUSY", f"{profile} is ONLINE with this format")

    def free(self) -> int:
        """EVs that profiles may still use."""
        return MAX_PROFILES * MAX_EVS - sum(profile.count for profile in self.profiles.values())

    # --- changes ------------------------------------------------------------------------------------------------------

    def modify(self, number: int, change: EvProfileChange) -> None:
        """mrc_ctl_modify_ev_profile."""
        profile, mask = self.profile(number), change.mask
        target = profile.target(mask, change.to, change.current)
        if profile.state is ProfileState.ONLINE:
            self._modify_online(profile, target, change)
            return
        self._configure(profile, change)
        if mask & EvProfileMask.EV_OP:
            self._apply_ev_op(profile, change)
        if target is ProfileState.ONLINE:
            self._bring_online(profile)
        if target is ProfileState.INIT:
            self.profiles[number] = ProgramEvProfile(number)
        else:
            profile.state = target

    def _modify_online(self, profile: ProgramEvProfile, target: ProfileState, change: EvProfileChange) -> None:
        fixed = EvProfileMask.MODE | EvProfileMask.FMT_ID | EvProfileMask.COUNT | EvProfileMask.MIN_ACTIVE
        if change.mask & fixed:
            raise invalid(f"{profile} is ONLINE; take it OFFLINE to change {change.mask & fixed!r}")
        online = self._ctl.ev_profile(profile.number_online)
        rebuild = change.mask & EvProfileMask.FIELDS_OP or (
            change.mask & EvProfileMask.EV_OP and change.op == EvOp.REPLACE
        )
        if online.users and (rebuild or target is ProfileState.OFFLINE):
            raise VerbsError("EBUSY", f"{profile} serves {online.users} QPs; destroy them first")
        if change.mask & EvProfileMask.EVENT_MASK:
            profile.events = _event_mask(change.events)
            online.event_mask = _states(profile.events)
        if change.mask & EvProfileMask.FIELDS_OP:
            self._set_fields(profile, change.fields)
        if change.mask & EvProfileMask.EV_OP:
            self._apply_ev_op(profile, change)
        if change.mask & EvProfileMask.VENDOR_CFG:
            profile.vendor = change.vendor
        if rebuild or target is ProfileState.OFFLINE:
            self._ctl.destroy_ev_profile(profile.number_online)
            profile.number_online = 0
        if target is ProfileState.OFFLINE:
            profile.state = target
        elif rebuild:
            self._bring_online(profile)

    def _configure(self, profile: ProgramEvProfile, change: EvProfileChange) -> None:
        """Set the attributes of an OFFLINE profile, or of one that becomes OFFLINE."""
        mask = change.mask
        mode = change.mode if mask & EvProfileMask.MODE else profile.mode
        fmt = change.format if mask & EvProfileMask.FMT_ID else profile.format
        count = (
            change.count
            if mask & EvProfileMask.COUNT
            else profile.count or (MAX_EVS if MODES.get(mode) is Mode.AUTO else 0)
        )
        min_active = change.min_active if mask & EvProfileMask.MIN_ACTIVE else profile.min_active
        events = _event_mask(change.events) if mask & EvProfileMask.EVENT_MASK else profile.events
        if mode not in MODES:
            raise invalid(f"there is no EV mode {mode}")
        if MODES[mode] is not Mode.AUTO and (used := self.formats.profile(fmt)).state is not ProfileState.ONLINE:
            raise invalid(f"{used} is {used.state.name}; bring it ONLINE first")
        if count > MAX_EVS:
            raise VerbsError("E2BIG", f"{count} EVs; a profile has at most {MAX_EVS}")
        if count < 1 or min_active > count:
            raise invalid(f"{count} EVs, of which {min_active} must stay active: give a count, and no more than that")
        if (mode, count) != (profile.mode, profile.count) and MODES[mode] is Mode.EXPLICIT:
            profile.entries = [EvProfileEntry() for _ in range(count)]
        if mask & EvProfileMask.FIELDS_OP:
            self._set_fields(profile, change.fields, fmt)
        profile.mode, profile.format, profile.count, profile.min_active = mode, fmt, count, min_active
        profile.events = events
        if mask & EvProfileMask.VENDOR_CFG:
            profile.vendor = change.vendor
        if (
            MODES[mode] is Mode.GENERATED
            and profile.fields
            and (mask & (EvProfileMask.FIELDS_OP | EvProfileMask.COUNT | EvProfileMask.MODE) or not profile.entries)
        ):
            self._generate(profile)

    def _set_fields(
        self, profile: ProgramEvProfile, fields: list[tuple[int, int, int, int, int]], fmt: int | None = None
    ) -> None:
        number = profile.format if fmt is None else fmt
        _expansion(self.formats.profile(number), fields)
        profile.fields = fields
        for entry in profile.entries:
            if entry.value is not None:
                entry.expanded = _expanded(self.formats.profile(number), fields, entry.value)

    def _generate(self, profile: ProgramEvProfile) -> None:
        expansion = _expansion(self.formats.profile(profile.format), profile.fields)
        assert expansion is not None
        ports = [port.number for port in self._endpoint.config.ports]
        profile.entries = []
        for n in range(profile.count):
            bits = expansion.draw(self._endpoint.rng)
            value = (bits << 8 * VALUE_BYTES - expansion.bits).to_bytes(VALUE_BYTES, "big")
            profile.entries.append(EvProfileEntry(ports[n % len(ports)], value, ApiState.GOOD, expansion.expand(bits)))

    def _bring_online(self, profile: ProgramEvProfile) -> None:
        mode = MODES[profile.mode]
        empty = sum(entry.value is None for entry in profile.entries)
        if empty or (mode is not Mode.AUTO and not profile.entries):
            raise invalid(f"{profile} has {empty or profile.count} unpopulated entries")
        fmt = EvFormat.STEV if mode is Mode.AUTO else FORMATS[self.formats.profile(profile.format).mode]

        def make(number: int) -> EvProfile:
            made = EvProfile(
                number, Mode.AUTO, fmt, profile.count, profile.min_active, _states(profile.events), hashed=True,
                listener=lambda event: self._deliver(event._replace(profile=profile.number)),
            )  # fmt: skip
            made.mode = Mode.EXPLICIT if profile.entries else Mode.AUTO
            made.entries = profile.entries
            denied = [entry for entry in made.entries if entry.state is ApiState.DENIED]
            made.denied = {(entry.port, entry.value) for entry in denied if entry.value is not None}
            return made

        made = self._ctl.add_ev_profile(make)
        profile.number_online = made.number
        made.transition(ProfileState.OFFLINE)
        made.transition(ProfileState.ONLINE)

    # --- operations on EVs --------------------------------------------------------------------------------------------

    def _apply_ev_op(self, profile: ProgramEvProfile, change: EvProfileChange) -> None:
        for value, port, new_value, new_port, state, flags in change.entries:
            if change.op == EvOp.REPLACE:
                self._replace(profile, (port, value), (new_port, new_value), state, bool(flags & 1))
            elif change.op == EvOp.MODIFY_STATE:
                self._set_state(profile, port, value, state)
            else:
                raise invalid(f"EV operation {change.op} changes nothing; it belongs to the query")

    def _replace(
        self, profile: ProgramEvProfile, old: tuple[int, bytes], new: tuple[int, bytes], state: int, all_copies: bool
    ) -> None:
        if MODES[profile.mode] is not Mode.EXPLICIT:
            raise invalid(f"{profile} is not explicit; its EVs cannot be replaced")
        port, value = new
        self._ctl.query_port(port)
        if state and state not in {STATES[ApiState.GOOD], STATES[ApiState.DENIED]}:
            raise invalid(f"an EV can be set to GOOD or DENIED, not to {state:#x}")
        expanded = _expanded(self.formats.profile(profile.format), profile.fields, value)
        known = (0, None) if old == (0, bytes(VALUE_BYTES)) else old
        found = [entry for entry in profile.entries if (entry.port, entry.value) == known]
        if not found:
            raise VerbsError("ENOENT", f"{profile} has no EV {old[1].hex()} on port {old[0]}")
        for entry in found if all_copies else found[:1]:
            entry.port, entry.value, entry.expanded = port, value, expanded
            entry.state = ApiState.DENIED if state == STATES[ApiState.DENIED] else ApiState.GOOD

    def _set_state(self, profile: ProgramEvProfile, port: int, value: bytes, state: int) -> None:
        new_state = next((api for api, number in STATES.items() if number == state), ApiState.UNKNOWN)
        if new_state not in {ApiState.GOOD, ApiState.DENIED}:
            raise invalid(f"an EV can be set to GOOD or DENIED, not to {state:#x}")
        if profile.number_online:
            api_value = value if profile.entries else value[:4]
            self._ctl.modify_ev_state(profile.number_online, port, api_value, new_state, self._loop.now)
            return
        found = [entry for entry in profile.entries if (entry.port, entry.value) == (port, value)]
        if not found:
            raise VerbsError("ENOENT", f"{profile} has no EV {value.hex()} on port {port}")
        for entry in found:
            entry.state = new_state

    def state_of(self, profile: ProgramEvProfile, port: int, value: bytes) -> int:
        """QUERY_EV_STATE: the controller's state, or ASSUMED_BAD if a QP found that; ENOENT for an unknown EV."""
        known = [entry.state for entry in profile.entries if (entry.port, entry.value) == (port, value)]
        api_value = value if profile.entries else value[:4]
        used = self.in_use(profile).get((port, api_value), [])
        if not known and not used:
            raise VerbsError("ENOENT", f"{profile} has no EV {value.hex()} on port {port}")
        if ApiState.DENIED in known:
            return STATES[ApiState.DENIED]
        if ApiState.ASSUMED_BAD in used:
            return STATES[ApiState.ASSUMED_BAD]
        return STATES[(known or used)[0]]

    def in_use(self, profile: ProgramEvProfile) -> dict[tuple[int, bytes], list[ApiState]]:
        """Return the EVs of all QPs of a profile, and the state of each."""
        found: dict[tuple[int, bytes], list[ApiState]] = {}
        for qp in self._ctl.qps_of(profile.number_online):
            for port, value, state in self._ctl.query_ev_state(qp.qpn):
                found.setdefault((port, value), []).append(state)
        return found

    def array(self, profile: ProgramEvProfile) -> list[tuple[bytes, int, int]]:
        """QUERY_EV_ARRAY: value, port and state of each entry; for an AUTO profile those that QPs drew."""
        if not profile.entries:
            drawn = self.in_use(profile)
            return [
                (value.ljust(VALUE_BYTES, b"\0"), port, STATES[states[0]]) for (port, value), states in drawn.items()
            ]
        return [
            (entry.value or bytes(VALUE_BYTES), entry.port,
             STATES[entry.state] if entry.value is None else self.state_of(profile, entry.port, entry.value))
            for entry in profile.entries
        ]  # fmt: skip


def _event_mask(mask: int) -> int:
    if mask & ~sum(_EVENTS):
        raise invalid(f"events can be requested for GOOD and ASSUMED_BAD, not for {mask:#x}")
    return mask


def _states(mask: int) -> frozenset[ApiState]:
    return frozenset(state for bit, state in _EVENTS.items() if mask & bit)


def _expansion(fmt: FormatProfile, fields: Sequence[tuple[int, int, int, int, int]]) -> Expansion | None:
    """Return the expansion of a program's fields; a maximum of 0 under mask bits means no limit."""
    if not fields:
        return None
    made = [EvField(width, init, low, high if high or low else None, mask) for width, init, low, high, mask in fields]
    if len(fields) > len(fmt.widths):
        raise VerbsError("E2BIG", f"{len(fields)} fields; {fmt} has {len(fmt.widths)}")
    return Expansion(FORMATS[fmt.mode], made, fmt.widths)


def _expanded(fmt: FormatProfile, fields: Sequence[tuple[int, int, int, int, int]], value: bytes) -> bytes:
    """Return an EV of 32 bytes as in packets: expanded, or unchanged without fields."""
    expansion = _expansion(fmt, fields)
    size = FORMATS[fmt.mode].value
    if expansion is None:
        if any(value[size:]):
            raise invalid(f"EV value {value.hex()} is longer than the {size} bytes of its format")
        return value[:size]
    if int.from_bytes(value, "big") & (1 << 8 * VALUE_BYTES - expansion.bits) - 1:
        raise invalid(f"EV value {value.hex()} has bits beyond the {expansion.bits} that its fields take")
    return expansion.expand(int.from_bytes(value, "big") >> 8 * VALUE_BYTES - expansion.bits)
