"""Clustermapper's part in a host: probes that come back to their sender, over every link that begins at its own T0s.

A probe to `locator | T0 | own downlink` tests the cable to a T0 and that T0; one to
`locator | T0 | T1 | T0 | own downlink` a T0–T1 cable and the T1 as well (arXiv 2605.04333 §3). Switches forward them as
data, no other host takes part. A cycle sends one probe per target, evenly spread; its report follows as soon as the
last one has come back or is late.
"""

from collections.abc import Callable
from typing import Any

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame, cable_macs
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import NodeConfig
from mrclab.topo.numbers import Dscp

CYCLE_S = 0.5
TIMEOUT_S = 0.25

_SOURCE = slice(h.INNER_AT + 8, h.INNER_AT + 24)
_DESTINATION = slice(h.INNER_AT + 24, h.INNER_AT + 40)
_PSN_AT = h.BTH_AT + 9
_LEAST = h.BODY_AT


class _Target:
    """One path to itself, and what became of this cycle's probe on it."""

    def __init__(self, path: EvRoute) -> None:
        self.path = path
        self.sent_at: float | None = None
        self.rtt: float | None = None


class _Cycle:
    """One round over all targets."""

    def __init__(self, number: int, paths: list[EvRoute]) -> None:
        self.number = number
        self.targets = [_Target(path) for path in paths]
        self.next = 0

    def closes_at(self, timeout: float) -> float | None:
        """When the last probe is late; None while some are not sent."""
        last = self.targets[-1].sent_at
        return None if last is None else last + timeout

    def answered(self) -> bool:
        return all(target.rtt is not None for target in self.targets)

    def report(self) -> dict[str, Any]:
        probes = [
            {
                "plane": target.path.plane,
                "uplink": target.path.uplink,
                "sent": 1,
                "lost": int(target.rtt is None),
                "rtt": target.rtt,
            }
            for target in self.targets
        ]
        return {"kind": "mapper.report", "cycle": self.number, "probes": probes}


class Mapper:
    """Probes of one host. `send` puts a frame on a port if that is up; `report` takes the record of a cycle."""

    def __init__(
        self,
        config: NodeConfig,
        send: Callable[[int, Frame], None],
        report: Callable[[dict[str, Any]], object],
        cycle: float = CYCLE_S,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self._paths = _paths(config)
        self._own = srv6.to_bytes(srv6.from_text(config.host.address))
        self._send = send
        self._report = report
        self._timeout = timeout
        self.interval = cycle / len(self._paths)
        """Seconds between two calls of `tick`."""
        self._cycles = [_Cycle(1, self._paths)]

    def tick(self, now: float) -> None:
        """Send the next probe; report the cycles that are over."""
        cycle = self._cycles[-1]
        if cycle.next == len(cycle.targets):
            cycle = _Cycle(cycle.number + 1, self._paths)
            self._cycles.append(cycle)
        target = cycle.targets[cycle.next]
        target.sent_at = now
        psn = (cycle.number & 0xFF) << 16 | cycle.next
        cycle.next += 1
        self._send(target.path.port, _frame(target.path, psn, now))
        self._close(now)

    def receive(self, frame: bytes | memoryview, now: float) -> bool:
        """Take a frame that came in; return False when it is no probe of this host."""
        if len(frame) < _LEAST or frame[h.BTH_AT] != h.MrcOpcode.ENDPOINT_REQUEST:
            return False
        if frame[_SOURCE] != self._own or frame[_DESTINATION] != self._own:
            return False
        number, index = frame[_PSN_AT], int.from_bytes(frame[_PSN_AT + 1 : _PSN_AT + 3], "big")
        for cycle in self._cycles:
            if cycle.number & 0xFF == number and index < cycle.next:
                target = cycle.targets[index]
                if target.rtt is None and target.sent_at is not None and now - target.sent_at <= self._timeout:
                    target.rtt = round(now - target.sent_at, 9)
        self._close(now)
        return True

    def _close(self, now: float) -> None:
        while self._cycles:
            cycle = self._cycles[0]
            closes = cycle.closes_at(self._timeout)
            if closes is None or (now < closes and not cycle.answered()):
                return
            self._report(cycle.report())
            if len(self._cycles) == 1:
                self._cycles.append(_Cycle(cycle.number + 1, self._paths))
            del self._cycles[0]


def _paths(config: NodeConfig) -> list[EvRoute]:
    """Return the paths of one cycle: per plane the own T0, then every T1 above it."""
    host = config.host
    own = srv6.from_text(host.address)
    local = srv6.template_local(host.group, host.downlink)
    cross = srv6.template_cross(host.group, host.group, host.downlink)
    result = []
    for port in config.ports:
        macs = cable_macs(port)
        uplinks = sorted({uplink for template in config.templates for uplink in template.uplinks.get(port.plane, ())})
        for uplink in (0, *uplinks):
            entropy = srv6.ev(port.plane, uplink, srv6.ev_tag(uplink))
            result.append(EvRoute(entropy, port.number, macs, cross if uplink else local, own, own))
    return result


def _frame(path: EvRoute, psn: int, now: float) -> Frame:
    bth = wire.BTH.pack(h.MrcOpcode.ENDPOINT_REQUEST, wire.MIGRATED, wire.P_KEY, h.ENDPOINT_QPN, psn)
    body = h.EndpointRequest(h.EndpointOp.EV_PROBE, 0, h.timestamp(now)).pack()
    return path.frame(Dscp.NO_TRIM << 2 | wire.ECN_ECT, bth + body)
