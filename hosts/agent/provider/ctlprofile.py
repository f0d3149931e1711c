"""Numbered profiles of the control interface (`mrc_ctl.h`): enums, states and steps, and EV format profiles.

INIT → OFFLINE → ONLINE and back. They belong to the device: all programs of a host share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import ClassVar, Final, Generic, TypeVar

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.mrc.evs.evformat import EvFormat, check_widths
from mrclab.hosts.mrc.evs.evprofile import PROFILE_STEPS, ApiState, Mode, ProfileState
from mrclab.hosts.rdma.errors import VerbsError

MAX_PROFILES: Final = 64  # of each kind; numbers are 1…64
FORMATS: Final = {1: EvFormat.STEV, 2: EvFormat.SRV6, 4: EvFormat.UDP}
MODES: Final = {1: Mode.AUTO, 2: Mode.EXPLICIT, 4: Mode.GENERATED}
STATES: Final = {ApiState.GOOD: 1, ApiState.ASSUMED_BAD: 2, ApiState.DENIED: 4, ApiState.UNKNOWN: 1 << 31}
VALUE_BYTES: Final = 32


class EvOp(IntEnum):
    """enum mrc_ctl_ev_op."""

    REPLACE = 0
    MODIFY_STATE = 1
    QUERY_STATE = 2
    QUERY_ARRAY = 3


class EvFormatMask(IntFlag):
    """enum mrc_ctl_ev_fmt_profile_attr_mask."""

    STATE = 1
    CUR_STATE = 2
    MODE = 4
    OP = 8
    VENDOR_CFG = 1 << 31


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
    VENDOR_CFG = 1 << 31


class CcProfileMask(IntFlag):
    """enum mrc_ctl_cc_profile_attr_mask."""

    STATE = 1
    CUR_STATE = 2
    ALGORITHM = 4
    CONFIG = 8
    VENDOR_CFG = 1 << 31


def invalid(text: str) -> VerbsError:
    """EINVAL."""
    return VerbsError("EINVAL", text)


_STATE, _CUR_STATE, _FIRST = 1, 2, 4  # the same bits of all three masks; the last is what a profile in INIT needs


@dataclass
class CtlProfile:
    """Common fields of the three kinds. `first` names the attribute that a profile in INIT needs."""

    title: ClassVar[str]
    first: ClassVar[str] = "mode"

    number: int
    state: ProfileState = ProfileState.INIT
    vendor: bytes = bytes(wire.VENDOR_BYTES)

    def __str__(self) -> str:
        return f"{self.title} profile {self.number}"

    def target(self, mask: int, to: int, current: int) -> ProfileState:
        """Return the state to go to; EINVAL for a step that does not exist, or if CUR_STATE differs."""
        if mask & _CUR_STATE and current != self.state:
            raise invalid(f"{self} is {self.state.name}, not in state {current}")
        if mask & _STATE and (self.state, to) not in PROFILE_STEPS:
            raise invalid(f"{self} cannot go from {self.state.name} to state {to}")
        target = ProfileState(to) if mask & _STATE else self.state
        if self.state is ProfileState.INIT and (target is ProfileState.INIT or not mask & _FIRST):
            raise invalid(f"{self} is in INIT: it needs its {self.first} and the step to OFFLINE")
        return target

    def check_only_state(self, mask: int) -> None:
        """EINVAL for a change of another attribute than the state; for a profile that is ONLINE."""
        if mask & ~(_STATE | _CUR_STATE):
            raise invalid(f"{self} is ONLINE; take it OFFLINE to change it")


@dataclass
class TransportProfile(CtlProfile):
    """A profile that the transport has too while it is ONLINE, by the number `number_online`."""

    number_online: int = 0


P = TypeVar("P", bound=CtlProfile)
T = TypeVar("T", bound=TransportProfile)


class ProfileTable(Generic[P]):
    """All profiles of one kind of a host, by number."""

    def __init__(self, kind: type[P]) -> None:
        self._title = kind.title
        self.profiles = {number: kind(number) for number in range(1, MAX_PROFILES + 1)}

    def profile(self, number: int) -> P:
        """Return the profile; raise EINVAL if the number is out of range."""
        if number not in self.profiles:
            raise invalid(f"there is no {self._title} profile {number}; there are 1…{MAX_PROFILES}")
        return self.profiles[number]


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

    mode: int = 0
    widths: tuple[int, ...] = ()

    def modify(
        self, mask: EvFormatMask, to: int, current: int, mode: int, widths: Sequence[int], vendor: bytes
    ) -> None:
        """mrc_ctl_modify_ev_fmt_profile; the caller checks EV profiles that use this one."""
        target = self.target(mask, to, current)
        if self.state is ProfileState.ONLINE:
            self.check_only_state(mask)
        chosen = mode if mask & EvFormatMask.MODE else self.mode
        places = tuple(widths) if mask & EvFormatMask.OP else self.widths
        if chosen not in FORMATS:
            raise invalid(f"there is no EV format mode {chosen}")
        if places or mask & EvFormatMask.OP:
            check_widths(FORMATS[chosen], places)
        if target is ProfileState.ONLINE and not places:
            raise invalid(f"{self} has no fields yet")
        self.mode, self.widths = chosen, places
        if mask & EvFormatMask.VENDOR_CFG:
            self.vendor = vendor
        if target is ProfileState.INIT:
            self.mode, self.widths, self.vendor = 0, (), bytes(wire.VENDOR_BYTES)
        self.state = target
