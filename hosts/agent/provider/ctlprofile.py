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


@dataclass
class CtlProfile:
    """Common fields of the three kinds."""

    number: int
    state: ProfileState = ProfileState.INIT
    vendor: bytes = bytes(wire.VENDOR_BYTES)

    def target(self, named: bool, to: int, asserted: bool, current: int) -> ProfileState:
        """Return the state to go to; EINVAL for a step that does not exist, or if CUR_STATE differs."""
        if asserted and current != self.state:
            raise invalid(f"profile {self.number} is {self.state.name}, not in state {current}")
        if not named:
            return self.state
        if (self.state, to) not in PROFILE_STEPS:
            raise invalid(f"profile {self.number} cannot go from {self.state.name} to state {to}")
        return ProfileState(to)


@dataclass
class TransportProfile(CtlProfile):
    """A profile that the transport has too while it is ONLINE, by the number `number_online`."""

    title: ClassVar[str]
    number_online: int = 0

    def use(self) -> int:
        """Return `number_online`; EINVAL if the profile is not ONLINE."""
        if self.state is not ProfileState.ONLINE:
            raise invalid(f"{self.title} profile {self.number} is {self.state.name}; bring it ONLINE first")
        return self.number_online


P = TypeVar("P", bound=TransportProfile)


class TransportProfiles(Generic[P]):
    """All profiles of one kind of a host, by number."""

    def __init__(self, kind: type[P]) -> None:
        self.title = kind.title
        self.profiles = {number: kind(number) for number in range(1, MAX_PROFILES + 1)}

    def profile(self, number: int) -> P:
        """Return the profile; raise EINVAL if the number is out of range."""
        if number not in self.profiles:
            raise invalid(f"there is no {self.title} profile {number}; there are 1…{MAX_PROFILES}")
        return self.profiles[number]

    def online(self, number: int) -> int | None:
        """The transport's number of an ONLINE profile; None for 0."""
        return self.profile(number).use() if number else None


@dataclass
class FormatProfile(CtlProfile):
    """An EV format: the places of an expanded EV."""

    mode: int = 0
    widths: tuple[int, ...] = ()

    def modify(
        self, mask: EvFormatMask, to: int, current: int, mode: int, widths: Sequence[int], vendor: bytes
    ) -> None:
        """mrc_ctl_modify_ev_fmt_profile; the caller checks EV profiles that use this one."""
        target = self.target(bool(mask & EvFormatMask.STATE), to, bool(mask & EvFormatMask.CUR_STATE), current)
        if self.state is ProfileState.ONLINE and mask & ~(EvFormatMask.STATE | EvFormatMask.CUR_STATE):
            raise invalid(f"EV format profile {self.number} is ONLINE; take it OFFLINE to change it")
        if self.state is ProfileState.INIT and (target is ProfileState.INIT or not mask & EvFormatMask.MODE):
            raise invalid(f"EV format profile {self.number} is in INIT: it needs its mode and the step to OFFLINE")
        chosen = mode if mask & EvFormatMask.MODE else self.mode
        places = tuple(widths) if mask & EvFormatMask.OP else self.widths
        if chosen not in FORMATS:
            raise invalid(f"there is no EV format mode {chosen}")
        if places or mask & EvFormatMask.OP:
            check_widths(FORMATS[chosen], places)
        if target is ProfileState.ONLINE and not places:
            raise invalid(f"EV format profile {self.number} has no fields yet")
        self.mode, self.widths = chosen, places
        if mask & EvFormatMask.VENDOR_CFG:
            self.vendor = vendor
        if target is ProfileState.INIT:
            self.mode, self.widths, self.vendor = 0, (), bytes(wire.VENDOR_BYTES)
        self.state = target
