"""EV profiles and EV formats of a host, by the numbers that programs choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from mrclab.hosts.agent.provider.ctlprofile import (
    FORMATS,
    MAX_PROFILES,
    MODES,
    STATES,
    VALUE_BYTES,
    VENDOR_CFG,
    EvOp,
    EvProfileMask,
    FormatProfile,
    FormatProfiles,
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


Entry = tuple[bytes, int, bytes, int, int, int]
"""Argument of an operation on EVs: value, port, new value, new port, state, flags."""

Field = tuple[int, int, int, int, int]
"""Width, initial value, minimum, maximum and mask of a field."""


@dataclass
class ProgramEvProfile(TransportProfile):
    """An EV profile of a program."""

    title: ClassVar[str] = "EV"
    attributes: ClassVar[Mapping[int, str]] = {
        EvProfileMask.MODE: "mode", EvProfileMask.FMT_ID: "format", EvProfileMask.COUNT: "count",
        EvProfileMask.MIN_ACTIVE: "min_active", EvProfileMask.EVENT_MASK: "events", EvProfileMask.FIELDS_OP: "fields",
        VENDOR_CFG: "vendor",
    }  # fmt: skip
    online: ClassVar[frozenset[str]] = frozenset({"events", "fields", "vendor"})

    mode: int = 0
    format: int = 0
    count: int = 0
    min_active: int = 0
    events: int = 0
    fields: list[Field] = field(default_factory=list)
    entries: list[EvProfileEntry] = field(default_factory=list)


class EvProfiles(TransportProfiles[ProgramEvProfile]):
    """All EV profiles and EV formats of a host."""

    def __init__(self, endpoint: MrcEndpoint, ctl: Ctl, deliver: Callable[[EvEvent], None], loop: Loop) -> None:
        super().__init__(ProgramEvProfile)
        self._endpoint, self._ctl, self._deliver, self._loop = endpoint, ctl, deliver, loop
        self.formats = FormatProfiles(FormatProfile)

    def check_format_unused(self, format_number: int) -> None:
        """Raise EBUSY if an ONLINE EV profile has this format."""
        for profile in self.profiles.values():
            if profile.state is ProfileState.ONLINE and profile.format == format_number:
                raise VerbsError("EBUSY", f"{profile} is ONLINE with this format")

    def free(self) -> int:
        """EVs that profiles may still use."""
        return MAX_PROFILES * MAX_EVS - sum(profile.count for profile in self.profiles.values())

    # --- changes ------------------------------------------------------------------------------------------------------

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
        self._complete(made, profile, mask)
        if operates:
            self._apply_ev_op(made, op, entries)
        if ends:
            self._ctl.destroy_ev_profile(made.number_online)
            made.number_online = 0
        if made.number_online:
            self._ctl.ev_profile(made.number_online).event_mask = _states(made.events)
        elif made.state is ProfileState.ONLINE:
            self._bring_online(made)
        self.enter(made)

    def _complete(self, made: ProgramEvProfile, before: ProgramEvProfile, mask: EvProfileMask) -> None:
        """Check what a profile was given, and make its entries where that changes them."""
        mode = MODES.get(made.mode)
        if mode is None:
            raise invalid(f"there is no EV mode {made.mode}")
        if mode is not Mode.AUTO and (used := self.formats.profile(made.format)).state is not ProfileState.ONLINE:
            raise invalid(f"{used} is {used.state.name}; bring it ONLINE first")
        if mode is Mode.AUTO and not mask & EvProfileMask.COUNT:
            made.count = made.count or MAX_EVS
        if made.count > MAX_EVS:
            raise VerbsError("E2BIG", f"{made.count} EVs; a profile has at most {MAX_EVS}")
        if made.count < 1 or made.min_active > made.count:
            counts = f"{made.count} EVs, of which {made.min_active} must stay active"
            raise invalid(f"{counts}: give a count, and no more than that")
        if made.events & ~sum(_EVENTS):
            raise invalid(f"events can be requested for GOOD and ASSUMED_BAD, not for {made.events:#x}")
        resized = (made.mode, made.count) != (before.mode, before.count)
        if resized:
            made.entries = [EvProfileEntry() for _ in range(made.count)] if mode is Mode.EXPLICIT else []
        if mask & EvProfileMask.FIELDS_OP:
            fmt = self.formats.profile(made.format)
            _expansion(fmt, made.fields)
            for entry in made.entries:
                if entry.value is not None:
                    entry.expanded = _expanded(fmt, made.fields, entry.value)
        if mode is Mode.GENERATED and made.fields and (resized or mask & EvProfileMask.FIELDS_OP):
            self._generate(made)

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

    def _apply_ev_op(self, profile: ProgramEvProfile, op: int, entries: Sequence[Entry]) -> None:
        for value, port, new_value, new_port, state, flags in entries:
            if op == EvOp.REPLACE:
                self._replace(profile, (port, value), (new_port, new_value), state, bool(flags & 1))
            elif op == EvOp.MODIFY_STATE:
                self._set_state(profile, port, value, state)
            else:
                raise invalid(f"EV operation {op} changes nothing; it belongs to the query")

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


def _states(mask: int) -> frozenset[ApiState]:
    return frozenset(state for bit, state in _EVENTS.items() if mask & bit)


def _expansion(fmt: FormatProfile, fields: Sequence[Field]) -> Expansion | None:
    """Return the expansion of a program's fields; a maximum of 0 under mask bits means no limit."""
    if not fields:
        return None
    made = [EvField(width, init, low, high if high or low else None, mask) for width, init, low, high, mask in fields]
    if len(fields) > len(fmt.widths):
        raise VerbsError("E2BIG", f"{len(fields)} fields; {fmt} has {len(fmt.widths)}")
    return Expansion(FORMATS[fmt.mode], made, fmt.widths)


def _expanded(fmt: FormatProfile, fields: Sequence[Field], value: bytes) -> bytes:
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
