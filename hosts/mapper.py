"""Clustermapper's part in a host: probes that come back to their sender, over every link that begins at its own T0s.

A probe to `locator | T0 | own downlink` tests the cable to a T0 and that T0; one to
`locator | T0 | T1 | T0 | own downlink` a T0–T1 cable and the T1 as well (arXiv 2605.04333 §3). Switches forward them as
data, no other host takes part. A cycle sends one probe per target, evenly spread; its report follows as soon as the
last one has come back or is late.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets.path import Frame, cable_macs
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig

_SOURCE = slice(h.INNER_AT + 8, h.INNER_AT + 24)
_DESTINATION = slice(h.INNER_AT + 24, h.INNER_AT + 40)
_PSN_AT = h.BTH_AT + 9
_MIN_BYTES = h.BODY_AT


@dataclass
class _SelfProbe:
    """One path to itself, and the outcome of this cycle's probe; times in seconds."""

    plane: int
    uplink: int
    sent_at: float | None = None
    rtt: float | None = None

    def row(self) -> dict[str, Any]:
        """Its part of the cycle's report."""
        lost = int(self.rtt is None)
        return {"plane": self.plane, "uplink": self.uplink, "sent": 1, "lost": lost, "rtt": self.rtt}


class Mapper:
    """Probes of one host. `send` puts a frame on a port if that is up; `report` takes the record of a cycle.

    `cycle` and `timeout` in seconds.
    """

    def __init__(
        self,
        config: NodeConfig,
        send: Callable[[int, Frame], None],
        report: Callable[[dict[str, Any]], object],
        cycle: float,
        timeout: float,
    ) -> None:
        self._paths = ProbePaths(config)
        self._host = config.host.name
        self._own = srv6.to_bytes(srv6.from_text(config.host.address))
        self._send = send
        self._report = report
        self._timeout = timeout
        self.interval = cycle / self._paths.count
        """Seconds between two calls of `tick`."""
        self._cycles: dict[int, list[_SelfProbe]] = {}  # those without a report, by number; the last is being sent
        self._begin(1)

    def _begin(self, number: int) -> None:
        """Begin a cycle."""
        self._number, self._sent = number, 0
        self._cycles[number] = [_SelfProbe(plane, uplink) for plane, uplink in self._paths.of_cycle(number)]

    def tick(self, now: float) -> None:
        """Send the next probe; report the cycles that are over."""
        if self._sent == len(self._cycles[self._number]):
            self._begin(self._number + 1)
        probe = self._cycles[self._number][self._sent]
        probe.sent_at = now
        psn = (self._number & 0xFF) << 16 | self._sent
        self._sent += 1
        path = self._paths.path(probe.plane, probe.uplink)
        self._send(path.port, _frame(path, psn, now))
        self._close(now)

    def receive(self, frame: bytes | memoryview, now: float) -> bool:
        """Handle a received frame; return False if it is not a probe of this host."""
        if len(frame) < _MIN_BYTES or frame[h.BTH_AT] != h.MrcOpcode.ENDPOINT_REQUEST:
            return False
        if frame[_SOURCE] != self._own or frame[_DESTINATION] != self._own:
            return False
        number, index = frame[_PSN_AT], int.from_bytes(frame[_PSN_AT + 1 : _PSN_AT + 3], "big")
        for cycle, probes in self._cycles.items():
            if cycle & 0xFF == number and index < len(probes):
                probe = probes[index]
                if probe.rtt is None and probe.sent_at is not None and now - probe.sent_at <= self._timeout:
                    probe.rtt = round(now - probe.sent_at, 9)
        self._close(now)
        return True

    def _close(self, now: float) -> None:
        """Report the cycles whose last probe was sent, and whose probes are all back or late."""
        for number, probes in list(self._cycles.items()):
            last = probes[-1].sent_at
            if last is None or (now < last + self._timeout and any(probe.rtt is None for probe in probes)):
                return
            rows = [probe.row() for probe in probes]
            self._report({"kind": "mapper.report", "cycle": number, "probes": rows, "host": self._host})
            if number == self._number:
                self._begin(number + 1)
            del self._cycles[number]


class ProbePaths:
    """The self-probes of one host: per plane its own T0, then the T1s above it, all or `mapper.t1s` of them in turn.

    The hosts of a T0 begin far from each other, so that few of them cover all of its T1s soon; those of the next T0 are
    a cycle ahead, so that every T1 is probed from somewhere in every cycle.
    """

    def __init__(self, config: NodeConfig) -> None:
        host = config.host
        own = srv6.from_text(host.address)
        self._local = Ends(srv6.template_local(host.group, host.downlink), own, own)
        self._cross = Ends(srv6.template_cross(host.group, host.group, host.downlink), own, own)
        self._ports = {port.plane: port for port in config.ports}
        self._uplinks = {plane: config.uplinks(plane) for plane in self._ports}
        self._most = config.mapper.t1s if config.mapper is not None else 0
        self._begin = _spread(host.downlink - 1)
        self._ahead = host.group - 1  # cycles
        self._made: dict[tuple[int, int], EvRoute] = {}

    @property
    def count(self) -> int:
        """Probes of one cycle."""
        return sum(1 + min(self._most or len(uplinks), len(uplinks)) for uplinks in self._uplinks.values())

    def of_cycle(self, number: int) -> Iterator[tuple[int, int]]:
        """(plane, uplink) of the probes of a cycle, which are counted from 1; uplink 0 turns at the T0."""
        for plane, uplinks in self._uplinks.items():
            yield plane, 0
            if not self._most or self._most >= len(uplinks):
                yield from ((plane, uplink) for uplink in uplinks)
            else:
                begin = int(self._begin * len(uplinks)) + plane
                first = begin + (self._ahead + number - 1) * self._most
                yield from ((plane, uplinks[(first + place) % len(uplinks)]) for place in range(self._most))

    def path(self, plane: int, uplink: int) -> EvRoute:
        """One of them, made when it is first probed and kept where every cycle has it."""
        found = self._made.get((plane, uplink))
        if found is None:
            port = self._ports[plane]
            entropy = srv6.ev(plane, uplink, srv6.ev_tag(uplink & srv6.MAX_TAG_INDEX))
            found = EvRoute(entropy, port.number, cable_macs(port), self._cross if uplink else self._local)
            if not (self._most and uplink):
                self._made[plane, uplink] = found
        return found


def _spread(place: int) -> float:
    """Of 0, 1, 2…: 0, 1/2, 1/4, 3/4, 1/8… (van der Corput): however many there are, they are evenly apart."""
    found, part = 0.0, 0.5
    while place:
        found += part * (place & 1)
        place, part = place >> 1, part / 2
    return found


def _frame(path: EvRoute, psn: int, now: float) -> Frame:
    content = h.EndpointRequest(h.EndpointOp.EV_PROBE, 0, h.timestamp(now))
    return path.packet(h.TC_NO_TRIM, h.MrcOpcode.ENDPOINT_REQUEST, h.ENDPOINT_QPN, psn, content)
