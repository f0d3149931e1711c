"""Parameters of a RoCEv2 QP, from the node config and the caller's overrides, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from mrclab.hosts.rdma import settings as rc
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.roce import headers as h
from mrclab.topo.config.nodeconfig import DcqcnSection, NodeConfig, Template, TransportSection
from mrclab.topo.economy import IdentityCache

_DEFAULT_CONTROL = "dcqcn"
_LAST_SPORT = 0xFFFF


@dataclass(frozen=True, eq=False, repr=False)
class RoceQpSettings(rc.QpSettings):
    """Attributes of a QP. Times in seconds, sizes in bytes; the window (MPR) counts packets in flight.

    Fields that TransportSection also has are described there.
    """

    line_rate: float  # bytes per second of a port
    retry_count: int
    ack_packets: int
    dcqcn: DcqcnSection
    recovery: str
    window_bdps: float
    reorder_packets: int
    port: int | None  # NIC port; None: by QP number
    udp_sport: int | None  # None: drawn


_FROM_CONFIG = frozenset(f.name for f in fields(RoceQpSettings)) & frozenset(TransportSection.model_fields)
_CALLER_MAY_SET = _FROM_CONFIG - {"dcqcn"} | {"port", "udp_sport"}


def qp_settings(config: NodeConfig, template: Template, **overrides: Any) -> RoceQpSettings:
    """Defaults of the node config for a destination, and `overrides`: fields of TransportSection, port and udp_sport.

    QPs with equal ones share one object, unless an override has many values.
    """
    if not overrides.keys() <= _SHARED_OVERRIDES or any(isinstance(v, (list, dict)) for v in overrides.values()):
        return _build(config, template, overrides)
    own = tuple(sorted([(name, type(value), value) for name, value in overrides.items()]))
    rest = config.path_mtu, config.link.rate_pps, template.base_rtt, *own
    return _shared.get((config.transport,), rest, lambda: _build(config, template, overrides))


_shared: IdentityCache[RoceQpSettings] = IdentityCache(64)
_SHARED_OVERRIDES = frozenset(
    {"ack_packets", "mpr", "recovery", "reorder_packets", "retry_count", "timeout_exponent", "wimm", "window_bdps"}
)
"""Overrides with few values: QPs with equal ones share their settings."""


def _build(config: NodeConfig, template: Template, overrides: dict[str, Any]) -> RoceQpSettings:
    if "ev_profile" in overrides:
        raise VerbsError("EOPNOTSUPP", "a RoCEv2 QP has no EVs; leave ev_profile out, or use MRC")
    rc.check_names(overrides, _CALLER_MAY_SET)
    port, sport = overrides.pop("port", None), overrides.pop("udp_sport", None)
    if port is not None and all(port != known.number for known in config.ports):
        raise VerbsError("EINVAL", f"this host has no port {port}; it has {[p.number for p in config.ports]}")
    if sport is not None and (not isinstance(sport, int) or not h.FIRST_SPORT <= sport <= _LAST_SPORT):
        raise VerbsError("EINVAL", f"udp_sport {sport!r} is outside {h.FIRST_SPORT}…{_LAST_SPORT}")
    section = rc.checked_section(config.transport, overrides)
    chosen = {name: getattr(section, name) for name in _FROM_CONFIG}
    if section.kind != "roce" and "cc_profile" not in overrides:
        chosen["cc_profile"] = _DEFAULT_CONTROL
    if chosen["cc_profile"] != config.transport.cc_profile:  # the node config's settings are those of its own profile
        chosen["cc_config"] = overrides.get("cc_config", {})
    line_rate = config.link.rate_pps * (config.path_mtu + h.HEADER_BYTES)
    return RoceQpSettings(
        path_mtu=config.path_mtu, base_rtt=template.base_rtt, line_rate=line_rate, port=port, udp_sport=sport, **chosen
    )
