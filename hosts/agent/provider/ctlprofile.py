"""Numbered profiles of the control interface (`mrc_ctl.h`): enums, states and steps, and EV format profiles.

INIT → OFFLINE → ONLINE and back. They belong to the device: all programs of a host share them. A change gives a mask of
attributes, their values, and the state to go to; it makes a new profile, which takes the place of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Final, Generic, TypeVar

from typing_extensions import Self

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.mrc.evs.evformat import EvFormat, check_widths
from mrclab.hosts.mrc.evs.evprofile import PROFILE_STEPS, ApiState, Mode, ProfileState
from mrclab.hosts.rdma.errors import VerbsError

MAX_PROFILES: Final = 64  # of each kind; numbers are 1…64
FORMATS: Final = {1: EvFormat.STEV, 2: EvFormat.SRV6, 4: EvFormat.UDP}
MODES: Final = {1: Mode.AUTO, 2: Mode.EXPLICIT, 4: Mode.GENERATED}
STATES: Final = {ApiState.GOOD: 1, ApiState.ASSUMED_BAD: 2, ApiState.DENIED: 4, ApiState.UNKNOWN: 1 << 31}
VALUE_BYTES: Final = 32
VENDOR_CFG: Final = 1 << 31  # bit of all three masks


class EvOp(IntEnum):
    """enum mrc_ctl_ev_op."""

    REPLACE = 0
    MODIFY_STATE = 1
    QUERY_STATE = 2
    QUERY_ARRAY = 3


class EvProfileMask(IntFlag):
    """enum mrc_ctl_ev_profile_attr_mask."""

    STATE = 1
    CUR_STATE = 2
    MODE = 4
    FMT_ID = 8
    COUNT = 16
    MIN_ACTIVE = 32
    EVENT_MASK = 64
    EV_OP = 128
    FIELDS_OP = 256
    VENDOR_CFG = VENDOR_CFG


def invalid(text: str) -> VerbsError:
    """EINVAL."""
    return VerbsError("EINVAL", text)


_STATE, _CUR_STATE, _FIRST = 1, 2, 4  # the same bits of all three masks; the last is what a profile in INIT needs


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


@dataclass
class TransportProfile(CtlProfile):
    """A profile that the transport has too while it is ONLINE, by the number `number_online`."""

    number_online: int = 0


P = TypeVar("P", bound=CtlProfile)
T = TypeVar("T", bound=TransportProfile)


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

    def enter(self, profile: P) -> None:
        """Put a profile in the place of the one with its number; in INIT it has nothing."""
        number = profile.number
        self.profiles[number] = self._kind(number) if profile.state is ProfileState.INIT else profile


class TransportProfiles(ProfileTable[T]):
    """The same of a kind that the transport has too."""

    def online(self, number: int) -> int | None:
        """Return the transport's number of an ONLINE profile, None for 0; EINVAL for one that is not ONLINE."""
        if not number:
            return None
        profile = self.profile(number)
        if profile.state is not ProfileState.ONLINE:
            raise invalid(f"{profile} is {profile.state.name}; bring it ONLINE first")
        return profile.number_online


@dataclass
class FormatProfile(CtlProfile):
    """An EV format: the places of an expanded EV."""

    title: ClassVar[str] = "EV format"
    # enum mrc_ctl_ev_fmt_profile_attr_mask
    attributes: ClassVar[Mapping[int, str]] = {4: "mode", 8: "widths", VENDOR_CFG: "vendor"}

    mode: int = 0
    widths: tuple[int, ...] = ()


class FormatProfiles(ProfileTable[FormatProfile]):
    """All EV formats of a host."""

    def modify(self, number: int, mask: int, to: int, current: int, **values: Any) -> None:
        """mrc_ctl_modify_ev_fmt_profile; the caller checks EV profiles that use this one."""
        made = self.profile(number).changed(mask, to, current, values)
        if made.mode not in FORMATS:
            raise invalid(f"there is no EV format mode {made.mode}")
        if made.widths or mask & 8:
            check_widths(FORMATS[made.mode], made.widths)
        if made.state is ProfileState.ONLINE and not made.widths:
            raise invalid(f"{made} has no fields yet")
        self.enter(made)
