"""Node configs of all hosts, made from the fabric. Pure, except for `publish`.

Sizes follow the ratios of the reference: windows in bandwidth-delay products, timeouts in round-trip times.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from mrclab.topo import srv6
from mrclab.topo.config import nodeconfig
from mrclab.topo.config.nodeconfig import (
    ACK_TIMEOUT_UNIT,
    MPR_UNIT,
    DenyRule,
    EvProfileConfig,
    HostSection,
    LinkSection,
    MapperSection,
    NicPortConfig,
    NodeConfig,
    Scope,
    Template,
    TransportSection,
)
from mrclab.topo.config.transport import DEFAULT_TRANSPORT, TransportSpec
from mrclab.topo.economy import LazySequence
from mrclab.topo.model import Fabric, Host

TIMEOUT_RTTS = 13  # the local ACK timeout in base RTTs, at least; production has 13 to 26
MPR_BDPS = 16  # window of PSNs in bandwidth-delay products: several RTTs of sending beyond one missing packet
PROBE_INTERVAL_RTTS = 12.0  # first probe of an ASSUMED_BAD EV; a demo of seconds is to see EVs come back
PROBE_BACKOFF_CAP = 4.0
REFAIL_WINDOW = 60.0  # seconds in which an EV that fails again is trusted less; times the fabric's `time_scale`
SACK_PACKETS = 3  # a SACK when more than this many full packets are unacknowledged, so every fourth
MAPPER_TIMEOUT_RTTS = 8  # a self-probe that takes longer is lost
MAPPER_MIN_TIMEOUT = 0.25  # seconds; a busy machine delays a probe by this much without anything being wrong
NO_DENIALS: Mapping[str, Iterable[DenyRule]] = {}
BACKUP_SHARE = 4  # one path in four is held back as a backup
MAX_EVS = 256  # of a QP, over all planes; the paper has 128 to 256
MAX_LISTED = 4096  # hosts up to which their directory is a list
MAX_TEMPLATES = 64  # made for a host in advance


def node_configs(
    fabric: Fabric,
    version: int = 1,
    denylists: Mapping[str, Iterable[DenyRule]] = NO_DENIALS,
    mapper: MapperSection | None = None,
    choice: TransportSpec = DEFAULT_TRANSPORT,
) -> dict[str, NodeConfig]:
    """Everything that each host must know, by its name; `choice` is the run's transport."""
    return dict(Configs(fabric, version, denylists, mapper, choice))


class Configs(Mapping[str, NodeConfig]):
    """Node configs by host, each created on first use.

    Hosts of one T0 group share their view of the fabric, and all hosts share one directory, not a dict each.
    """

    def __init__(
        self,
        fabric: Fabric,
        version: int,
        denylists: Mapping[str, Iterable[DenyRule]],
        mapper: MapperSection | None,
        choice: TransportSpec,
        agents: int = 0,
        of_hosts: Mapping[str, TransportSpec] | None = None,
    ) -> None:
        self._of_hosts = of_hosts or {}  # transports of hosts that have one of their own
        self._fabric = fabric
        self._version = version
        self._denylists = denylists
        self._mapper = mapper
        self._choice = choice
        self._agents = agents or fabric.spec.hosts_per_t0  # of each T0 group, that take part in Clustermapper
        few = len(fabric.hosts) <= MAX_LISTED
        self._directory = {host.name: host.address for host in fabric.hosts} if few else Directory(fabric)
        self._of_group: dict[tuple[int, int], NodeConfig] = {}

    def __getitem__(self, name: str) -> NodeConfig:
        host = self._fabric.host(name)
        choice = self._of_hosts.get(name, self._choice)
        key = host.group, id(choice)
        common = self._of_group.get(key)
        if common is None:
            made = _first_of_group(self._fabric, host, self._version, self._mapper, choice)
            common = self._of_group[key] = made.model_copy(update={"directory": self._directory})
        denied = tuple(self._denylists.get(name, ()))
        own = {"host": _section(host), "ports": _ports(host, self._fabric), "denylist": denied}
        return _interned(common.model_copy(update=own if host.downlink <= self._agents else {**own, "mapper": None}))

    def __iter__(self) -> Iterator[str]:
        return iter(self._fabric.host_names)

    def __len__(self) -> int:
        return len(self._fabric.hosts)


class Directory(Mapping[str, str]):
    """Host names and inner addresses, by arithmetic."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def __getitem__(self, name: str) -> str:
        if not self._fabric.has_host(name):
            raise KeyError(name)
        return self._fabric.address(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fabric.host_names)

    def __len__(self) -> int:
        return len(self._fabric.hosts)


def _first_of_group(
    fabric: Fabric, host: Host, version: int, mapper: MapperSection | None, choice: TransportSpec
) -> NodeConfig:
    spec = fabric.spec
    templates = LazySequence(spec.t0s, lambda index: template(fabric, host.group, index + 1), spec.t0s)
    link = LinkSection.model_construct(
        rate_pps=float(spec.link.rate_pps), delay=float(spec.link.delay), rate=spec.link.rate,
        time_scale=spec.display_scale,
    )  # fmt: skip
    made = NodeConfig.model_construct(  # of a valid fabric: to build its validator takes longer than many hosts
        version=version,
        host=_section(host),
        path_mtu=spec.path_mtu,
        link=link,
        ports=_ports(host, fabric),
        templates=tuple(templates) if spec.t0s <= MAX_TEMPLATES else templates[:1],
        ev_profiles=(choice.profile(default_profile(fabric)),),
        transport=transport(fabric, choice),
        mapper=mapper,
    )
    return made if spec.t0s <= MAX_TEMPLATES else made.model_copy(update={"templates": templates})


_SCOPES: dict[int, Scope] = {2: "t0-local", 4: "cross-t1", 6: "cross-t2"}

Part = TypeVar("Part", bound=BaseModel)
_GIVEN: dict[frozenset[str], set[str]] = {}


def _section(host: Host) -> HostSection:
    made = HostSection.model_construct(
        name=host.name, number=host.number, group=host.group, downlink=host.downlink, address=host.address
    )
    return _interned(made)


def _ports(host: Host, fabric: Fabric) -> tuple[NicPortConfig, ...]:
    return tuple(
        _interned(
            NicPortConfig.model_construct(
                number=port.number,
                name=port.interface,
                plane=port.plane,
                mac=port.mac,
                peer_switch=port.peer.node,
                peer_port=port.peer.number,
                peer_mac=port.peer.mac,
                **_own_rate(fabric, fabric.shape.link_of_nic(host.number, port.plane)),
            )
        )
        for port in host.ports
    )


def _own_rate(fabric: Fabric, index: int) -> dict[str, Any]:
    """The field that the port of a link has where that is not as fast as the fabric's."""
    if not fabric.spec.links:
        return {}
    rate = fabric.link_times(index).rate
    return {} if rate == fabric.spec.link.rate else {"rate": rate}


def _interned(made: Part) -> Part:
    """Share pydantic's set of given fields between sections with the same ones: saves 0.7 kB each."""
    given = made.model_fields_set
    object.__setattr__(made, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(given), given))
    return made


def template(fabric: Fabric, own: int, group: int) -> Template:
    """Return the template by which hosts of T0 group `own` reach T0 group `group`."""
    uplinks = _counted(fabric.uplinks_between(own, group))
    links = fabric.links_between_groups(own, group)
    made = Template.model_construct(
        group=group,
        prefix=f"{srv6.text(srv6.group_prefix(group))}/64",
        scope=_SCOPES[links],
        address=srv6.text(fabric.template(own, group, 0)),
        uplinks=_of_planes(fabric.planes, uplinks),
        base_rtt=base_rtt(fabric, links),
        links=links,
        fan=fabric.fan_between(own, group),
        byte_time=fabric.spec.byte_time(links) if fabric.spec.links else None,
    )
    return _interned(made)


@functools.cache
def _of_planes(planes: int, uplinks: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Return `uplinks` for every plane; equal arguments give the same object."""
    return dict.fromkeys(range(1, planes + 1), uplinks)


@functools.cache
def _counted(most: int) -> tuple[int, ...]:
    """1 to `most`, the same object every time."""
    return tuple(range(1, most + 1))


def base_rtt(fabric: Fabric, links: int) -> float:
    """Base RTT in seconds over `links` links, with a switch between each two, on an idle fabric."""
    spec = fabric.spec
    if spec.link.rate is not None:
        return spec.base_rtt(links)
    there_and_back = 2 * (links * spec.link.delay + (links - 1) * spec.latency) + 4 * spec.nic_latency
    return there_and_back or spec.base_rtt(links)


def longest_rtt(fabric: Fabric) -> float:
    """Base RTT between the hosts that are furthest apart."""
    return base_rtt(fabric, fabric.spec.longest)


def default_profile(fabric: Fabric) -> EvProfileConfig:
    """Three quarters of a plane's paths active, the rest backup; at least a quarter of all EVs must stay active."""
    found = min(fabric.most_paths, MAX_EVS // fabric.planes)
    backup = found // BACKUP_SHARE
    active = found - backup
    return EvProfileConfig.model_construct(
        name="default",
        active_per_plane=active,
        backup_per_plane=backup,
        ev_min_active=max(1, active * fabric.planes // 4),
        probe_interval_rtts=PROBE_INTERVAL_RTTS,
        probe_backoff_cap=PROBE_BACKOFF_CAP,
        refail_window=REFAIL_WINDOW * fabric.spec.time_scale,
    )


def transport(fabric: Fabric, choice: TransportSpec = DEFAULT_TRANSPORT) -> TransportSection:
    """Defaults of a QP, scaled to the fabric's round-trip time and bandwidth-delay product, with the run's choice."""
    spec = fabric.spec
    rtt = longest_rtt(fabric)
    in_flight = rtt * spec.line_pps  # one BDP over all planes, packets
    defaults = {
        "mpr": min(255, max(1, math.ceil(MPR_BDPS * in_flight / MPR_UNIT))),
        "timeout_exponent": timeout_exponent(TIMEOUT_RTTS * rtt),
        "sack_gen_threshold": SACK_PACKETS * spec.path_mtu,
        "trimming": spec.trimming,
        "trim_threshold": spec.queue.trim_threshold,
        "drop_threshold": spec.queue.depth,
    }
    return choice.section(defaults)


def mapper(fabric: Fabric, cycle: float, t1s: int = 0) -> MapperSection | None:
    """Clustermapper in the hosts with a probe cycle of `cycle` seconds; None for 0. `t1s` as in the section."""
    if not cycle:
        return None
    least = MAPPER_MIN_TIMEOUT * fabric.spec.time_scale
    timeout = max(least, MAPPER_TIMEOUT_RTTS * longest_rtt(fabric))
    return MapperSection(cycle=cycle, timeout=timeout, t1s=t1s)


def timeout_exponent(seconds: float) -> int:
    """The least t for which 1.024 µs × 2^t is not below `seconds`; 24 is the largest there is."""
    return min(24, max(0, math.ceil(math.log2(max(seconds, ACK_TIMEOUT_UNIT) / ACK_TIMEOUT_UNIT))))


def publish(
    fabric: Fabric,
    directory: Path,
    denylists: Mapping[str, Iterable[DenyRule]],
    version: int = 1,
    mapper: MapperSection | None = None,
    choice: TransportSpec = DEFAULT_TRANSPORT,
    on_damage: Callable[[str, str], None] = lambda _host, _complaint: None,
) -> dict[str, NodeConfig]:
    """Write `<host>.json` of every host into `directory` and return the configs in force; OSError where writing fails.

    Files with this content already keep their version, so that a controller that restarts, or stands by,
    disturbs no host. Otherwise the new version is `version`, or more where a file has that already. `on_damage` gets
    each file (by host, with what is wrong) that is there and cannot be read.
    """
    stored = {host.name: _load(directory / f"{host.name}.json", host.name, on_damage) for host in fabric.hosts}
    intended = node_configs(fabric, 1, denylists, mapper, choice)
    current = {name: config for name, config in stored.items() if config is not None and _same(config, intended[name])}
    if len(current) == len(intended):
        return current
    newest = max((config.version for config in stored.values() if config is not None), default=0)
    number = max(version, newest + 1)
    fresh = {name: config.model_copy(update={"version": number}) for name, config in intended.items()}
    for name, config in fresh.items():
        nodeconfig.store(config, directory / f"{name}.json")
    return fresh


def _load(path: Path, host: str, on_damage: Callable[[str, str], None]) -> NodeConfig | None:
    """Return a file's content; None where it cannot be read and is written again."""
    try:
        return nodeconfig.load(path)
    except nodeconfig.NodeConfigError as error:
        if path.exists():
            on_damage(host, str(error))
        return None


def _same(one: NodeConfig, other: NodeConfig) -> bool:
    return one.model_copy(update={"version": other.version}) == other
