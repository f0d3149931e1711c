"""Transmit queues of control packets, one per port: which port sends a packet, also after a port failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.endpoint_ops import OpItem
from mrclab.hosts.mrc.packets.controlpackets import ControlItem
from mrclab.hosts.mrc.packets.packet import MrcParser
from mrclab.hosts.mrc.peers import Peer
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.rdma import endpoint as rc
from mrclab.hosts.rdma.packets.path import Frame

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint

_PROBE_SHARE: Final = 0.1  # of a link's capacity, at most, for probes of retired paths


class MrcPort(rc.TransportPort):
    """One NIC port, with its parser and the control packets that wait for it."""

    __slots__ = ("_probes_from", "control", "parser", "place")

    def __init__(self, number: int, plane: int, parser: MrcParser, place: int) -> None:
        super().__init__(number, plane)
        self.place = place  # among the ports, from 0
        self.parser = parser
        self.control: list[tuple[ControlItem | OpItem, Peer]] = []  # usually short: each free port takes one at once
        self._probes_from = 0.0  # earliest time of the next probe of a retired path

    def reaches(self, peer: Peer) -> bool:
        """Return True if this port can send control packets to a peer."""
        return self.up and peer.plane_up(self.plane) and self.plane in peer.reverse

    def probe_slot(self, seconds: float, now: float) -> float:
        """Reserve the time from which a probe of a retired path may be sent, which occupies the link for `seconds`.

        All together use `_PROBE_SHARE` of it: else many QPs with many EVs on a slow link would fill it with probes,
        each too late to count, forever.
        """
        slot = max(now, self._probes_from)
        self._probes_from = slot + seconds / _PROBE_SHARE
        return slot

    def control_frame(self, now: float) -> Frame:
        """Return the control packet that has waited longest."""
        item, peer = self.control.pop(0)
        path = item.path if isinstance(item, OpItem) and item.path is not None else peer.control_path(self.plane)
        return item.frame(path, now)


class ControlQueue:
    """The control packets of one host."""

    def __init__(self, endpoint: MrcEndpoint, ports: Mapping[int, MrcPort]) -> None:
        self._ports = ports
        self.ports: Final = list(ports.values())
        self._endpoint = endpoint

    def waiting(self) -> dict[int, int]:
        """Return how many packets wait, by port."""
        return {port.number: len(port.control) for port in self.ports}

    def send(self, item: ControlItem | OpItem, peer: Peer, port: int | None = None, besides: int | None = None) -> None:
        """Queue a packet for this port, or for the peer's next port if none is named or this one is down at either end.

        With `besides` that next one is another than this port, where there is another.

        A probe of a path is sent by that path's port only; if that is down, the probe is lost.

        Feedback uses the ports in turn. Sent by the port of its trigger, one SACK per four packets over four planes
        would always use the same plane, and a dead reverse path there would silence the receiver.
        """
        self._queue(item, peer, port, besides)
        self._endpoint.on_work()

    def _queue(self, item: ControlItem | OpItem, peer: Peer, port: int | None, besides: int | None) -> None:
        entry = self._ports[port] if port is not None else None
        if isinstance(item, OpItem) and item.path is not None:
            if entry is not None and entry.up:
                entry.control.append((item, peer))
            return
        if entry is None or not entry.reaches(peer):
            entry = self._in_turn(peer)
            for _ in self.ports if entry.number == besides else ():
                if (entry := self._in_turn(peer)).number != besides:
                    break
        entry.control.append((item, peer))

    def _in_turn(self, peer: Peer) -> MrcPort:
        """Return the next port. If a peer's data arrives by some planes only, those send every second packet.

        The peer may have lost the other planes without notice; or data has one path, whose reverse path is dead.
        """
        ports, data_at = self.ports, peer.data_at
        if len(ports) == 1:
            return ports[0]
        peer.control_turn = turn = self._next(peer, peer.control_turn, 0.0)
        since = max(data_at) - peer.recent
        if data_at[turn] >= since:
            return ports[turn]
        peer.port_without_data = not peer.port_without_data
        if peer.port_without_data:
            peer.data_turn = turn = self._next(peer, peer.data_turn, since)
        return ports[turn]

    def _next(self, peer: Peer, turn: int, since: float) -> int:
        """Return the next port that reaches the peer and has received data from it since then, if there is any."""
        ports, data_at = self.ports, peer.data_at
        for _ in ports:
            turn = (turn + 1) % len(ports)
            if data_at[turn] >= since and ports[turn].reaches(peer):
                break
        return turn

    def leave(self, port: MrcPort) -> None:
        """A port went down: packets that wait for it use others, except probes of its own paths."""
        waiting, port.control = port.control, []
        for item, peer in waiting:
            if not (isinstance(item, OpItem) and item.path is not None):
                self._queue(item, peer, None, None)

    def leave_dead_ports(self) -> None:
        """A port came up: packets that wait for ports that are down may use it."""
        for port in self.ports:
            if port.control and not port.up:
                self.leave(port)

    def drop_qp(self, qp: MrcQueuePair) -> None:
        """Drop the packets of a QP."""
        for port in self.ports:
            kept = [entry for entry in port.control if getattr(entry[0], "qp", None) is not qp]
            if len(kept) != len(port.control):
                port.control = kept

    def drop_peer(self, peer: Peer) -> None:
        """Drop the packets to a peer that no QP leads to any more."""
        for port in self.ports:
            port.control = [entry for entry in port.control if entry[1] is not peer]
