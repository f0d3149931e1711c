"""RoCEv2 endpoints in the simulated fabric of mrc_sim: one plane, a path per QP, and where asked a shared queue.

`Simulation.network` decides what happens to a frame on its way; `Bottleneck` is one: a link that all data to one host
crosses, a queue before it, and ECN marks as the switches of the lab set them.
"""

import random
from dataclasses import dataclass

import mrc_sim
from mrc_sim import FULL_SIZE, HOP, RATE

from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.endpoint import RoceEndpoint
from mrclab.topo import srv6

PORT_RATE = RATE * 4
"""One port of four times the rate, in place of four planes."""

RTT = 8 * HOP + 1 / RATE


@dataclass
class Transit(mrc_sim.Sent):
    """A RoCEv2 frame on its way."""

    BTH_AT = h.BTH_AT
    WRITES = h.WRITES

    port: int

    @property
    def asks_for_ack(self) -> bool:
        """AckReq of the BTH."""
        return bool(self.data[h.BTH_AT + 8] & wire.FLAG_ACK_REQUEST)

    def mark(self) -> None:
        """ECN-CE."""
        self.data[15] |= 0x30


class Simulation(mrc_sim.Simulation):
    """Hosts, clock and wires for RoCE: h1 and h2 hang on the first T0, h3 and h4 on the second, and so on."""

    def __init__(self, numbers=(1, 3), seed=1, rate=PORT_RATE, planes=1, **transport) -> None:
        self._rate = rate
        super().__init__(numbers, seed, planes=planes, uplinks=4, kind="roce", **{"cc_profile": "none"} | transport)

    def make_endpoint(self, config, rng, log):
        return RoceEndpoint(config, rng, log)

    def adapt(self, config):
        return config.model_copy(update={"link": config.link.model_copy(update={"rate_pps": self._rate})})

    def delay(self, transit: Transit) -> float:
        return (
            4 if self.configs[transit.source].host.group != self.configs[transit.destination].host.group else 2
        ) * HOP

    def _launch(self, name, port, data, wire_len) -> None:
        assert len(data) == wire_len
        self._free_at[name, port] = self.now + wire_len / (FULL_SIZE + h.HEADER_BYTES) / self._rate
        destination = self._by_address[srv6.from_bytes(data[38:54])]
        transit = Transit(name, destination, bytearray(data), self.now, next(self._serial), port)
        if self.keep_sent:
            self.sent.append(transit)
        for delay in self.network(transit):
            copy = bytes(transit.data)
            self.at(self.now + delay, lambda copy=copy: self.hosts[destination].receive(port, copy, self.now))


class Bottleneck:
    """The last hop to one host: a queue of `depth` packets served at the port rate, marked between two depths."""

    def __init__(self, sim: Simulation, host: str, ecn=(6, 26), depth=1280, seed=1) -> None:
        self._sim, self._host, self._ecn, self._depth = sim, host, ecn, depth
        self._rng = random.Random(seed)
        self._packet_time = 1 / sim._rate
        self._busy_until = 0.0
        self.worst = self.dropped = self.marked = self.passed = 0

    def __call__(self, transit: Transit) -> list[float]:
        travel = self._sim.delay(transit)
        if transit.destination != self._host or not transit.is_write:
            return [travel]
        arrival = self._sim.now + travel
        waiting = max(0.0, self._busy_until - arrival)
        queued = round(waiting / self._packet_time)
        self.worst = max(self.worst, queued)
        if queued >= self._depth:
            self.dropped += 1
            return []
        low, high = self._ecn
        if queued - low > self._rng.uniform(0, high - low):
            transit.mark()
            self.marked += 1
        self.passed += 1
        self._busy_until = arrival + waiting + self._packet_time
        return [self._busy_until - self._sim.now]
