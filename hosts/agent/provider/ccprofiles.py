"""Congestion control profiles of a host, by the numbers that programs choose."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from mrclab.hosts.agent.provider.ctlprofile import CcProfileMask, TransportProfile, TransportProfiles, invalid
from mrclab.hosts.mrc.ctl import Ctl
from mrclab.hosts.mrc.evs.evprofile import ProfileState

NSCC: Final = "uet-1.0-nscc"
_CONFIG: Final = (
    ("disable_qa", "flag"), ("adjust_bytes_threshold", "int"), ("adjust_period_threshold", "ns"), ("base_rtt", "ns"),
    ("eta", "float"), ("fi", "float"), ("fi_scale", "float"), ("gamma", "float"), ("max_md_jump", "float"),
    ("max_cwnd", "int"), ("qa_gate", "int"), ("qa_threshold", "ns"), ("target_delay", "ns"),
)  # fmt: skip


@dataclass
class CcProfile(TransportProfile):
    """A congestion control profile; `algorithm` empty: none."""

    title: ClassVar[str] = "congestion control"
    first: ClassVar[str] = "algorithm"

    algorithm: str | None = None
    config: list[int] = field(default_factory=list)  # the struct's fields in order, floats by their bits
    configured: bool = False

    def parameters(self) -> dict[str, Any]:
        """The parameters of the transport's controller. A field that is 0 keeps the lab's scaled default."""
        found: dict[str, Any] = {}
        for (name, kind), number in zip(_CONFIG, self.config, strict=False):
            if not number:
                continue
            if kind == "flag":
                found[name] = True
            elif kind == "ns":
                found[name] = number * 1e-9
            else:
                found[name] = struct.unpack("=f", struct.pack("=I", number))[0] if kind == "float" else number
        return found


class CcProfiles(TransportProfiles[CcProfile]):
    """All congestion control profiles of a host."""

    def __init__(self, ctl: Ctl) -> None:
        super().__init__(CcProfile)
        self._ctl = ctl

    def modify(
        self, number: int, mask: CcProfileMask, to: int, current: int, algorithm: str, config: list[int], vendor: bytes
    ) -> None:
        """mrc_ctl_modify_cc_profile."""
        profile = self.profile(number)
        target = profile.target(mask, to, current)
        if profile.state is ProfileState.ONLINE:
            self._take_offline(profile, target, mask)
            return
        made = replace(profile, state=target)
        if mask & CcProfileMask.ALGORITHM:
            if algorithm not in {"", NSCC}:
                raise invalid(f"there is no congestion control {algorithm!r}; there is {NSCC}")
            made.algorithm = algorithm
        if mask & CcProfileMask.CONFIG:
            made.config, made.configured = config, True
        if mask & CcProfileMask.VENDOR_CFG:
            made.vendor = vendor
        if target is ProfileState.ONLINE:
            if not made.configured:
                raise invalid(f"{made} needs its configuration before it goes ONLINE")
            parameters = made.parameters() if made.algorithm else {}
            made.number_online = self._ctl.create_cc_profile(made.algorithm or "none", **parameters)
        self.profiles[number] = CcProfile(number) if target is ProfileState.INIT else made

    def _take_offline(self, profile: CcProfile, target: ProfileState, mask: CcProfileMask) -> None:
        profile.check_only_state(mask)
        if target is ProfileState.OFFLINE:
            self._ctl.destroy_cc_profile(profile.number_online)
            profile.number_online = 0
            profile.state = target
