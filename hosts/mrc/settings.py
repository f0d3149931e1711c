"""Parameters of a QP, from the node config and the caller's overrides, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from mrclab.hosts.rdma import settings as rc
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo.config.nodeconfig import EvProfileConfig, NodeConfig, Template, TransportSection
from mrclab.topo.economy import IdentityCache

IDLE_RTTS: Final = 0.25
"""A SACK is due after this idle time; peers rely on it."""

RETRY_ENDLESS: Final = 25  # exp_cnt for: never give up


@dataclass(frozen=True, eq=False, repr=False)
class MrcQpSettings(rc.QpSettings):
    """Attributes of a QP. Times in seconds, sizes in bytes, `…_rtts` in base RTTs.

    Fields that TransportSection also has are described there.
    """

    ev: EvProfileConfig
    retry_linear: int
    retry_exponential: int
    sack_gen_threshold: int
    trimming: bool
    reorder_rtts: float
    reorder_cap_rtts: float
    same_ev_rule: bool
    tail_probe_rtts: float
    timestamps: bool
    remap_delay: float
    dynamic_mpr: bool
    spray: bool
    ecn_skip: bool
    ecn_echo: bool
    sack_loss: bool
    quick_adapt: bool
    always_skip_after: int
    port_status_update: bool
    share_path_failures: bool
    path_selection: str
    path_config: Mapping[str, Any]


_FROM_CONFIG: Final = frozenset(f.name for f in fields(MrcQpSettings)) & frozenset(TransportSection.model_fields)
_CALLER_MAY_SET: Final = _FROM_CONFIG | {"ev_profile", "path_mtu"}
_MIN_MTU: Final = 256


def qp_settings(config: NodeConfig, template: Template, **overrides: Any) -> MrcQpSettings:
    """Return the defaults of the node config for a destination, with `overrides`: fields of TransportSection.

    Without overrides it is one object for all destinations with equal defaults. EINVAL for an unknown name, and for a
    value that the node config does not allow.
    """
    if overrides:
        return _build(config, template, overrides)
    section, profiles = config.transport, config.ev_profiles
    rest = config.path_mtu, template.base_rtt, _least_reorder(config, template)
    return _shared.get((section, profiles), rest, lambda: _build(config, template, {}))


_shared: Final[IdentityCache[MrcQpSettings]] = IdentityCache(64)  # of QPs without attributes of their own


def _build(config: NodeConfig, template: Template, overrides: dict[str, Any]) -> MrcQpSettings:
    rc.check_names(overrides, _CALLER_MAY_SET)
    path_mtu = overrides.pop("path_mtu", config.path_mtu)
    if not isinstance(path_mtu, int) or not _MIN_MTU <= path_mtu <= config.path_mtu:
        raise VerbsError("EINVAL", f"path_mtu {path_mtu} is outside {_MIN_MTU}…{config.path_mtu}")
    section = rc.checked_section(config.transport, overrides)
    try:
        profile = config.profile(section.ev_profile)
    except KeyError:
        names = ", ".join(p.name for p in config.ev_profiles)
        raise VerbsError("EINVAL", f"there is no EV profile {section.ev_profile!r}; there are {names}") from None
    chosen = {name: getattr(section, name) for name in _FROM_CONFIG}
    chosen["reorder_rtts"] = max(section.reorder_rtts, _least_reorder(config, template))
    return MrcQpSettings(path_mtu=path_mtu, base_rtt=template.base_rtt, ev=profile, **chosen)


def _least_reorder(config: NodeConfig, template: Template) -> float:
    """Return the base RTTs that the time rule waits at least: with rates in packets, one packet ahead on each link.

    On a short slow link a packet waits longer behind one probe than a round trip over an idle fabric takes.
    """
    if config.link.rate is not None or not template.base_rtt:
        return 0.0
    return template.links / config.link.rate_pps / template.base_rtt
