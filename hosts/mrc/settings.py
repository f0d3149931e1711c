"""What a QP needs to know, gathered from the node config and the caller's overrides into one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from hosts.mrc.errors import VerbsError
from topo.nodeconfig import ACK_TIMEOUT_UNIT, MPR_UNIT, EvProfile, NodeConfig, Template

RETRY_ENDLESS = 25  # exp_cnt that means: never give up


@dataclass(frozen=True)
class QpSettings:
    """Attributes of a QP. Times in seconds, sizes in bytes, `…_rtts` in base RTTs."""

    path_mtu: int
    base_rtt: float
    mpr: int  # units of 128 PSNs
    wimm: int
    timeout_exponent: int
    retry_linear: int
    retry_exponential: int
    sack_gen_threshold: int
    trimming: bool
    cc_profile: str
    ev: EvProfile
    reorder_rtts: float  # time rule: lost when a packet sent so much later has arrived
    tail_probe_rtts: float  # silence with data in flight before a reliability probe
    timestamps: bool
    remap_delay: float  # from a local port's failure to the first packet elsewhere
    reorder_cap_rtts: float = 6.0  # spurious retransmissions widen the time rule up to this
    same_ev_rule: bool = True
    dynamic_mpr: bool = False  # SACKs carry the responder's window

    @property
    def ack_timeout(self) -> float:
        """Local ACK timeout, 1.024 µs × 2^t."""
        return ACK_TIMEOUT_UNIT * float(1 << self.timeout_exponent)

    @property
    def mpr_psns(self) -> int:
        """Window in PSNs."""
        return self.mpr * MPR_UNIT


_CALLER_MAY_SET = frozenset(f.name for f in fields(QpSettings)) - {"base_rtt", "ev"} | {"ev_profile"}
_LIMITS = {
    "mpr": (1, 255),
    "wimm": (1, 0xFFFF),
    "timeout_exponent": (0, 24),
    "retry_linear": (0, 7),
    "retry_exponential": (0, RETRY_ENDLESS),
}


def qp_settings(config: NodeConfig, template: Template, **overrides: Any) -> QpSettings:
    """Defaults of the node config for a destination, and `overrides`: fields of QpSettings, or `ev_profile` by name."""
    unknown = sorted(set(overrides) - _CALLER_MAY_SET)
    if unknown:
        raise VerbsError("EINVAL", f"a QP has no attribute {unknown[0]!r}; it has {', '.join(sorted(_CALLER_MAY_SET))}")
    for name, (low, high) in _LIMITS.items():
        if name in overrides and not low <= overrides[name] <= high:
            raise VerbsError("EINVAL", f"{name} {overrides[name]} is outside {low}…{high}")
    profile_name = overrides.pop("ev_profile", config.transport.ev_profile)
    try:
        profile = config.profile(profile_name)
    except KeyError:
        names = ", ".join(p.name for p in config.ev_profiles)
        raise VerbsError("EINVAL", f"there is no EV profile {profile_name!r}; there are {names}") from None
    t = config.transport
    settings = QpSettings(
        path_mtu=config.path_mtu,
        base_rtt=template.base_rtt,
        mpr=t.mpr,
        wimm=t.wimm,
        timeout_exponent=t.timeout_exponent,
        retry_linear=t.retry_linear,
        retry_exponential=t.retry_exponential,
        sack_gen_threshold=t.sack_gen_threshold,
        trimming=t.trimming,
        cc_profile=t.cc_profile,
        ev=profile,
        reorder_rtts=t.reorder_rtts,
        tail_probe_rtts=t.tail_probe_rtts,
        timestamps=t.timestamps,
        remap_delay=t.remap_delay,
    )
    return replace(settings, **overrides)
