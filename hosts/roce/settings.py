"""Parameters of a RoCEv2 QP, from the node config and the caller's overrides, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from mrclab.hosts.rdma import settings as rc
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.roce import headers as h
from mrclab.topo.config.nodeconfig import DcqcnSection, NodeConfig, Template
from mrclab.topo.economy import IdentityCache

RECOVERIES = ("go_back_n", "selective_repeat")
_DEFAULT_CONTROL = "dcqcn"
_MAX_BDPS = 1000


@dataclass(frozen=True)
class RoceQpSettings(rc.QpSettings):
    """Attributes of a QP. Times in seconds, sizes in bytes; the window (MPR) counts packets in flight."""

    line_rate: float  # bytes per second of a port
    retry_count: int
    ack_packets: int  # an ACK is requested by every n-th packet
    dcqcn: DcqcnSection
    recovery: str = "go_back_n"  # or selective_repeat
    window_bdps: float = 0.0  # packets in flight at most, in BDPs of a port; 0: unlimited
    reorder_packets: int = 0  # selective repeat: packets that may overtake one before it counts as lost
    port: int | None = None  # NIC port; None: by QP number
    udp_sport: int | None = None  # None: drawn


_CALLER_MAY_SET = frozenset(f.name for f in fields(RoceQpSettings)) - {"base_rtt", "line_rate", "path_mtu", "dcqcn"}
_LIMITS = {
    "mpr": (1, 255),
    "wimm": (1, 0xFFFF),
    "timeout_exponent": (0, 24),
    "retry_count": (0, 7),
    "ack_packets": (1, 0x7FFFFF),
    "reorder_packets": (0, 0x7FFFFF),
    "udp_sport": (h.FIRST_SPORT, 0xFFFF),
}


def qp_settings(config: NodeConfig, template: Template, **overrides: Any) -> RoceQpSettings:
    """Defaults of the node config for a destination, and `overrides`: fields of RoceQpSettings.

    The same object for all QPs that have the same.
    """
    if not overrides.keys() <= _SHARED_OVERRIDES:
        return _build(config, template, overrides)
    own = tuple(sorted([(name, type(value), value) for name, value in overrides.items()]))
    rest = config.path_mtu, config.link.rate_pps, template.base_rtt, *own
    return _shared.get((config.transport,), rest, lambda: _build(config, template, overrides))


_shared: IdentityCache[RoceQpSettings] = IdentityCache(64)
_SHARED_OVERRIDES = frozenset(
    {"ack_packets", "mpr", "recovery", "reorder_packets", "retry_count", "timeout_exponent", "wimm"}
)
"""Overrides with few values: QPs with equal ones share their settings."""


def _build(config: NodeConfig, template: Template, overrides: dict[str, Any]) -> RoceQpSettings:
    if "ev_profile" in overrides:
        raise VerbsError("EOPNOTSUPP", "a RoCEv2 QP has no EVs; leave ev_profile out, or use MRC")
    rc.check_names(overrides, _CALLER_MAY_SET)
    for name, (low, high) in _LIMITS.items():
        value = overrides.get(name, low)
        if not isinstance(value, int) or not low <= value <= high:
            raise VerbsError("EINVAL", f"{name} {value!r} is outside {low}…{high}")
    if overrides.get("recovery", "go_back_n") not in RECOVERIES:
        raise VerbsError("EINVAL", f"recovery {overrides['recovery']!r} is neither {' nor '.join(RECOVERIES)}")
    bdps = overrides.get("window_bdps", 0.0)
    if not isinstance(bdps, int | float) or not 0 <= bdps <= _MAX_BDPS:
        raise VerbsError("EINVAL", f"window_bdps {bdps!r} is outside 0…{_MAX_BDPS}")
    port = overrides.get("port")
    if port is not None and all(port != known.number for known in config.ports):
        raise VerbsError("EINVAL", f"this host has no port {port}; it has {[p.number for p in config.ports]}")
    t = config.transport
    settings = RoceQpSettings(
        path_mtu=config.path_mtu,
        base_rtt=template.base_rtt,
        line_rate=config.link.rate_pps * (config.path_mtu + h.HEADER_BYTES),
        mpr=t.mpr,
        wimm=t.wimm,
        timeout_exponent=t.timeout_exponent,
        retry_count=t.retry_count,
        ack_packets=t.ack_packets,
        cc_profile=t.cc_profile if t.kind == "roce" else _DEFAULT_CONTROL,
        cc_config=t.cc_config if overrides.get("cc_profile", t.cc_profile) == t.cc_profile else {},  # they are its own
        dcqcn=t.dcqcn,
        recovery=t.recovery,
        window_bdps=t.window_bdps,
        reorder_packets=t.reorder_packets,
    )
    return replace(settings, **overrides)
