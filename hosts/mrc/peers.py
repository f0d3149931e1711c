"""Peers of a host: paths to each, state of its ports, reverse path, congestion controllers."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

from mrclab.hosts.mrc.cc import PathFacts, Qpcc, controller, path_facts
from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.evs.plane import pick
from mrclab.hosts.mrc.packets.packet import MrcCodec
from mrclab.hosts.mrc.settings import MrcQpSettings, qp_settings
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.packets.path import cable_macs
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig, Template

_CONTROL_TAG: Final = srv6.ev_tag(srv6.MAX_TAG_INDEX)  # control packets use the last tag, which no QP's set reaches
_UPLINK_BITS: Final = srv6.MAX_INDEX.bit_length()
NOMINAL_OVERHEAD: Final = 40 + 8 + 12 + 4 + 4 + 16 + 4
"""Bytes of a packet besides its payload as congestion control counts them: inner IPv6 to ICRC, with TSETH."""


def plane_mask(config: NodeConfig) -> int:
    """Return the port mask of a host whose ports are all up. Bit n−1 is the port in plane n.

    Ports are numbered by their planes, which are all that two hosts share; each may number its ports in its own way.
    """
    return sum(1 << port.plane - 1 for port in config.ports)


@functools.lru_cache(4096)
def _template(text: str) -> tuple[int, int]:
    """Return a group's address template as a number, and the place of its last uSID, that of the downlink."""
    template, shift = srv6.from_text(text), 0
    while template >> shift & 0xFFFF == 0:
        shift += srv6.USID_BITS
    return template, shift


_RECENT_RTTS: Final = 2.0  # data must have arrived by a plane this recently for it to be trusted


class OwnSide:
    """Parts common to a host's paths and QPs, whatever the peer."""

    __slots__ = ("address", "facts", "macs", "planes", "settings")

    def __init__(self, config: NodeConfig) -> None:
        # by identity of config and template, or config and settings, which are kept alive
        self.settings: dict[tuple[int, int], tuple[NodeConfig, Template, MrcQpSettings]] = {}
        self.facts: dict[tuple[int, int], tuple[NodeConfig, MrcQpSettings, PathFacts]] = {}
        self.address = srv6.from_text(config.host.address)
        self.macs = {port.plane: (port.number, cable_macs(port)) for port in config.ports}  # by plane
        self.planes = plane_mask(config)

    def usual_settings(self, config: NodeConfig, template: Template) -> MrcQpSettings:
        """Return the settings of a QP without attributes of its own: those that all hosts share, found at once."""
        known = self.settings
        entry = known.get((id(config), id(template)))
        if entry is None:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            entry = known[id(config), id(template)] = config, template, qp_settings(config, template)
        return entry[2]


class Peer:
    """One destination host. Exists while a QP leads there."""

    __slots__ = (
        "_codec", "_config", "_control_paths", "_ends", "_own", "_uplinks", "_windows", "address", "address_bytes",
        "allowed", "byte_time", "control_turn", "credit", "data_at", "data_turn", "port_mask", "port_without_data",
        "ports_at", "qps", "recent", "reverse", "reverse_probe_at", "template", "text", "update_at", "update_id",
        "updates_sent",
    )  # fmt: skip

    def __init__(self, config: NodeConfig, address: str, rng: random.Random, codec: MrcCodec, own: OwnSide) -> None:
        try:
            template = config.template_for(address)
            _group, downlink = srv6.host_of_address(srv6.from_text(address))
        except (KeyError, ValueError):
            raise VerbsError(
                "EINVAL", f"{address} is not the address of a host with a template in the node config"
            ) from None
        self.template: Template = template
        # by plane; None inside the T0 group
        self._uplinks: Mapping[int, tuple[int, ...]] | None = None if template.scope == "t0-local" else template.uplinks
        self.address = srv6.from_text(address)
        self.text = srv6.text(self.address)
        self.port_mask = own.planes  # bit n−1: its port in plane n is up; all set until it reports
        self.ports_at = -inf  # time of the last report on its ports
        self.update_id = 0  # of the last Port Status Update that counted, and when it came
        self.update_at = -inf
        self.updates_sent = 0  # id of the last update sent there
        self.qps = 0
        self._config = config
        self._codec = codec
        self._own = own
        group, shift = _template(template.address)
        destination = group | srv6.usid(srv6.UsidType.DOWNLINK, 0, downlink) << shift
        self._ends = Ends(destination, own.address, self.address, template.fan)
        self.address_bytes = self._ends.destination
        self._control_paths: dict[int, EvRoute] = {}  # by plane << _UPLINK_BITS | uplink, once used
        self.reverse: dict[int, int] = {}  # plane → uplink of control packets
        self.allowed: dict[int, Sequence[int]] = {}  # plane → uplinks that are not denied
        self.apply_denylist(config, rng)
        self.control_turn = 0  # port of the last control packet
        self.data_turn = 0  # the same among the ports that its data arrived by recently
        self.data_at = [0.0] * len(own.macs)  # by port in their order: time at which data last arrived by it
        self.recent = _RECENT_RTTS * template.base_rtt
        rate = config.link.rate
        # serialization delay of one byte over all links of a path, seconds; 0 where links count packets
        self.byte_time = 0.0 if rate is None else template.byte_time or 8 * template.links / rate
        self.port_without_data = False  # the last packet went by a port without recent data
        self.reverse_probe_at = 0.0  # time of the last probe for a reverse path
        self._windows: dict[tuple[str, bool, str], Qpcc] = {}
        self.credit: Qpcc | None = None  # window of its receiver's credit, if there is one

    def take_ports(self, earlier: Peer) -> None:
        """Take the state of its ports from the object that stood for it while no QP led there."""
        self.port_mask, self.ports_at = earlier.port_mask, earlier.ports_at
        self.update_id, self.update_at = earlier.update_id, earlier.update_at

    @property
    def planes(self) -> Iterable[int]:
        """This host's planes, in the order of its ports."""
        return self._own.macs

    @property
    def full_nominal(self) -> int:
        """Nominal bytes of the link's full packet, for which the base RTT is given."""
        return self._config.path_mtu + NOMINAL_OVERHEAD

    @property
    def ports_down(self) -> int:
        """Mask of this host's planes in which the peer's port is down, as far as known here."""
        return self._own.planes & ~self.port_mask

    def plane_up(self, plane: int) -> bool:
        """Return True if its port in this plane is up, as far as known here."""
        return bool(self.port_mask >> plane - 1 & 1)

    def uplinks(self, plane: int) -> tuple[int, ...]:
        """T0 uplinks that lead there; (0,) inside the T0 group."""
        uplinks = self._uplinks
        return (0,) if uplinks is None else uplinks.get(plane, ())

    def uplinks_to_use(self, plane: int) -> Sequence[int]:
        """T0 uplinks for control packets: those not denied, or all if all are denied."""
        return self.allowed.get(plane) or (self.uplinks(plane) if self.reaches(plane) else ())

    def path(self, value: int) -> EvRoute:
        """Return the path of an EV."""
        port, macs = self._own.macs[srv6.ev_plane(value)]
        return self._codec.path(value, port, macs, self._ends)

    def control_path(self, plane: int, uplink: int | None = None) -> EvRoute:
        """Return the path of control packets in a plane, or one by another uplink."""
        if uplink is None:
            uplink = self.reverse[plane]
        key = plane << _UPLINK_BITS | uplink
        found = self._control_paths.get(key)
        if found is None:
            found = self._control_paths[key] = self.path(srv6.ev(plane, uplink, _CONTROL_TAG))
        return found

    def reaches(self, plane: int) -> bool:
        """Return True if this host has a port in this plane."""
        return plane in self._own.macs

    def apply_denylist(self, config: NodeConfig, rng: random.Random) -> None:
        """Keep control packets and probes off denied paths; a plane with denied paths only is used all the same."""
        denies = bool(config.denylist)
        for plane in self._own.macs:
            uplinks = self.uplinks(plane)
            allowed: Sequence[int] = uplinks
            if denies:
                allowed = [uplink for uplink in uplinks if not config.denied(plane, uplink, self.text)]
            self.allowed[plane] = allowed
            if uplinks and self.reverse.get(plane) not in (allowed or uplinks):
                self.reverse[plane] = pick(allowed or uplinks, rng)

    def is_of(self, config: NodeConfig) -> bool:
        """Return True if it was made from this node config."""
        return self._config is config

    def draw_again(self, config: NodeConfig, rng: random.Random) -> None:
        """Draw and discard a new peer's random numbers: later draws then do not depend on the peer being known."""
        denies = bool(config.denylist)
        for plane in self._own.macs:
            uplinks: Sequence[int] = self.uplinks(plane)
            if uplinks and denies:
                uplinks = [up for up in uplinks if not config.denied(plane, up, self.text)] or uplinks
            if uplinks:
                pick(uplinks, rng)

    def use_reverse(self, entropy: int) -> None:
        """Use the path of a packet that is known to have arrived for control packets of its plane."""
        self.take_reverse(srv6.ev_plane(entropy), srv6.ev_uplink(entropy))

    def take_reverse(self, plane: int, uplink: int) -> None:
        """Use the path by this uplink for control packets of its plane."""
        current = self.reverse.get(plane)
        if current is not None and current != uplink and uplink in self.allowed[plane]:
            self.reverse[plane] = uplink

    def rotate_reverse(self, entropy: int) -> None:
        """Try another path in a plane, since a packet on this EV shows that the peer did not get our responses.

        First the path through the same T1, since most cables fail in both directions; then each in turn. §1.4.6 learns
        good reverse paths from responses to probes only, none of which comes while all responses are lost.
        """
        plane, uplink = srv6.ev_plane(entropy), srv6.ev_uplink(entropy)
        uplinks = self.uplinks_to_use(plane)
        if not uplinks or plane not in self.reverse:
            return
        now = self.reverse[plane]
        if now != uplink and uplink in uplinks:
            self.reverse[plane] = uplink
        elif now in uplinks:
            self.reverse[plane] = uplinks[(uplinks.index(now) + 1) % len(uplinks)]

    def qpcc(self, settings: MrcQpSettings, now: float, config: dict[str, Any]) -> Qpcc:
        """Congestion window of this destination: one for all QPs with the same congestion control."""
        key = (settings.cc_profile, settings.trimming, repr(sorted(config.items())) if config else "")
        found = self._windows.get(key)
        if found is None:
            made = controller(settings.cc_profile, self._facts(settings), now, **config)
            found = self._windows[key] = Qpcc(made)
            if type(made).credit_based:
                self.credit = found
        return found

    def _facts(self, settings: MrcQpSettings) -> PathFacts:
        """Return the properties of a path with these settings, computed once for destinations that are alike."""
        config, known = self._config, self._own.facts
        entry = known.get((id(config), id(settings)))
        if entry is not None:
            return entry[2]
        rate = config.link.rate_pps
        mtu = config.path_mtu + NOMINAL_OVERHEAD  # of the link: QPs with smaller packets share the window
        made = path_facts(
            settings.base_rtt,
            rate * config.all_ports * settings.base_rtt * mtu,
            mtu,
            settings.trimming,
            config.transport.drop_threshold,
            rate * settings.base_rtt,
            config.longest_rtt,
        )
        if len(known) >= _MAX_KNOWN:
            known.clear()
        known[id(config), id(settings)] = config, settings, made
        return made


_MAX_WITHOUT_QP: Final = 256
_MAX_KNOWN: Final = 64


class PeerTable:
    """Peers by address."""

    def __init__(self, config: NodeConfig, rng: random.Random, codec: MrcCodec) -> None:
        self.own = OwnSide(config)
        self.with_qps: dict[bytes, Peer] = {}
        self._without_qps: dict[bytes, Peer] = {}
        self._config = config
        self._rng = rng
        self._codec = codec

    def use_config(self, config: NodeConfig) -> None:
        """Apply a new node config and its denylist."""
        self._config = config
        self._without_qps.clear()
        for peer in self.with_qps.values():
            peer.apply_denylist(config, self._rng)

    def peer(self, address: str) -> Peer:
        """Return the peer with this inner address; EINVAL if the node config has no path to it."""
        made = Peer(self._config, address, self._rng, self._codec, self.own)
        return self.find(made.address_bytes) or made

    def find(self, address: bytes) -> Peer | None:
        """Return a peer for endpoint packets, which need no QP; None if the node config does not know it."""
        found = self.with_qps.get(address) or self._without_qps.get(address)
        if found is None:
            try:
                text = srv6.text(srv6.from_bytes(address))
                found = Peer(self._config, text, self._rng, self._codec, self.own)
            except VerbsError:
                return None
            if len(self._without_qps) >= _MAX_WITHOUT_QP:
                self._without_qps.clear()
            self._without_qps[address] = found
        return found

    def for_qp(self, address: str) -> Peer:
        """Return the peer for a new QP: the known one, else a new one, which `enter` adds."""
        try:
            known = self.with_qps.get(srv6.to_bytes(srv6.from_text(address)))
        except ValueError:
            known = None
        if known is None or not known.is_of(self._config):
            made = Peer(self._config, address, self._rng, self._codec, self.own)
            earlier = self._without_qps.get(made.address_bytes)
            if earlier is not None:
                made.take_ports(earlier)
            return made
        known.draw_again(self._config, self._rng)
        return known

    def enter(self, peer: Peer) -> None:
        """Count a QP to this peer."""
        self.with_qps[peer.address_bytes] = peer
        self._without_qps.pop(peer.address_bytes, None)
        peer.qps += 1

    def leave(self, peer: Peer) -> None:
        """Forget a QP to this peer that was destroyed."""
        peer.qps -= 1
        if not peer.qps:
            del self.with_qps[peer.address_bytes]
