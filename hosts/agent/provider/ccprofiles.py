"""Congestion control profiles of a host, by the numbers that programs choose."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from mrclab.hosts.agent.provider.ctlprofile import VENDOR_CFG, TransportProfile, TransportProfiles, invalid
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
    # enum mrc_ctl_cc_profile_attr_mask
    attributes: ClassVar[Mapping[int, str]] = {4: "algorithm", 8: "config", VENDOR_CFG: "vendor"}

    algorithm: str = ""
    config: list[int] | None = None  # the struct's fields in order, floats by their bits; None: not configured yet

    def parameters(self) -> dict[str, Any]:
        """The parameters of the transport's controller. A field that is 0 keeps the lab's scaled default."""
        found: dict[str, Any] = {}
        for (name, kind), number in zip(_CONFIG, self.config or (), strict=False):
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
