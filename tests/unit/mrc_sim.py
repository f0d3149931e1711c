"""A simulated fabric for transport tests: endpoints joined in memory under a simulated clock.

Every NIC port sends at the link rate; a packet that arrives at the far end does so after the path's delay. What
happens on the way is decided by `Simulation.network`, which tests replace: it gets a Transit and returns the times
after which copies of it arrive.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.packets import headers as h
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import (
    EvProfileConfig,
    HostSection,
    LinkSection,
    NicPortConfig,
    NodeConfig,
    Template,
    TransportSection,
)

RATE = 500.0  # full-size packets per second and port
HOP = 0.002  # seconds per link
FULL_SIZE = 1024
PLANES = 4
UPLINKS = 2


def node_config(
    number: int, *, planes: int = PLANES, uplinks: int = UPLINKS, hosts_per_t0: int = 2, t0s: int = 2, **transport: Any
) -> NodeConfig:
    """The config of host `number` in a fabric of the demo's shape."""
    group, downlink = (number - 1) // hosts_per_t0 + 1, (number - 1) % hosts_per_t0 + 1
    name = f"h{number}"
    ports = tuple(
        NicPortConfig(
            number=p,
            name=f"{name}-p{p}",
            plane=p,
            mac=f"02:0c:{p:02x}:00:{number:02x}:01",
            peer_switch=f"t0-p{p}-{group}",
            peer_port=downlink,
            peer_mac=f"02:0a:{p:02x}:{group:02x}:00:{downlink:02x}",
        )
        for p in range(1, planes + 1)
    )
    templates = []
    for other in range(1, t0s + 1):
        local = other == group
        links = 2 if local else 4
        templates.append(
            Template(
                group=other,
                prefix=f"{srv6.text(srv6.group_prefix(other))}/64",
                scope="t0-local" if local else "cross-t1",
                address=srv6.text(srv6.template_local(other, 1) if local else srv6.template_cross(group, other, 1)),
                uplinks={p: () if local else tuple(range(1, uplinks + 1)) for p in range(1, planes + 1)},
                base_rtt=2 * links * HOP + 1 / RATE,
                links=links,
            )
        )
    profile = transport.pop("ev", None) or EvProfileConfig(
        name="default",
        active_per_plane=uplinks,
        backup_per_plane=0,
        ev_min_active=1,
        probe_interval_rtts=12,
        probe_backoff_cap=4,
    )
    values: dict[str, Any] = {
        "mpr": 4,
        "timeout_exponent": 18,
        "sack_gen_threshold": 3 * FULL_SIZE,
        "cc_profile": "uet-1.0-nscc",
        "trimming": False,
        "trim_threshold": 16,
        "drop_threshold": 64,
    } | transport
    return NodeConfig(
        version=1,
        host=HostSection(
            name=name,
            number=number,
            group=group,
            downlink=downlink,
            address=srv6.text(srv6.host_address(group, downlink)),
        ),
        path_mtu=FULL_SIZE,
        link=LinkSection(rate_pps=RATE, delay=HOP),
        ports=ports,
        templates=tuple(templates),
        ev_profiles=(profile,),
        transport=TransportSection(**values),
        directory={
            f"h{n}": srv6.text(srv6.host_address((n - 1) // hosts_per_t0 + 1, (n - 1) % hosts_per_t0 + 1))
            for n in range(1, 9)
        },
    )


@dataclass
class Sent:
    """A frame on its way from one host to another; `BTH_AT` and `WRITES` are its transport's."""

    BTH_AT: ClassVar[int]
    WRITES: ClassVar[frozenset[int]]

    source: str
    destination: str
    data: bytearray
    sent_at: float
    serial: int

    @property
    def op(self) -> int:
        """BTH opcode."""
        return self.data[self.BTH_AT]

    @property
    def is_write(self) -> bool:
        """True if it carries data."""
        return self.op in self.WRITES

    @property
    def psn(self) -> int:
        """BTH PSN."""
        return int.from_bytes(self.data[self.BTH_AT + 9 : self.BTH_AT + 12], "big")


@dataclass
class Transit(Sent):
    """An MRC frame on its way."""

    BTH_AT = h.BTH_AT
    WRITES = h.WRITES

    plane: int
    uplink: int  # 0: T0-local

    @property
    def entropy(self) -> int:
        """EV as the receiver sees it."""
        return int.from_bytes(self.data[h.INNER_AT + 2 : h.INNER_AT + 4], "big") << 16 | int.from_bytes(
            self.data[h.UDP_AT : h.UDP_AT + 2], "big"
        )

    def trim(self, length: int = 128, last_hop: bool = False) -> None:
        """Effects of a congested switch."""
        self.set_dscp(h.Dscp.TRIMMED_LASTHOP if last_hop else h.Dscp.TRIMMED)
        del self.data[length:]

    def mark(self) -> None:
        """ECN-CE in both headers."""
        for at in (h.OUTER_AT, h.INNER_AT):
            self.data[at + 1] |= 0x30

    def set_dscp(self, dscp: int) -> None:
        """Rewrite DSCP in both headers."""
        for at in (h.OUTER_AT, h.INNER_AT):
            ecn = self.data[at + 1] >> 4 & 3
            traffic_class = dscp << 2 | ecn
            self.data[at] = 0x60 | traffic_class >> 4
            self.data[at + 1] = (traffic_class & 0xF) << 4 | self.data[at + 1] & 0xF


Network = Callable[[Transit], list[float]]


class Simulation:
    """Hosts, clock and wires."""

    def __init__(self, numbers: tuple[int, ...] = (1, 3), seed: int = 1, **config: Any) -> None:
        self.now = 0.0
        self.records: list[dict[str, Any]] = []
        self.sent: list[Transit] = []
        self.keep_sent = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self.configs = {f"h{n}": self.adapt(node_config(n, **config)) for n in numbers}
        self.hosts = {
            name: self.make_endpoint(cfg, random.Random(seed * 1000 + index), self._logger(name))
            for index, (name, cfg) in enumerate(self.configs.items())
        }
        self._by_address = {srv6.from_text(cfg.host.address): name for name, cfg in self.configs.items()}
        self._free_at = {(name, port.number): 0.0 for name, cfg in self.configs.items() for port in cfg.ports}
        self._port_in = {(name, port.plane): port.number for name, cfg in self.configs.items() for port in cfg.ports}
        self.network: Network = self.clean
        self.before_send: Callable[[str, Transit], None] | None = None
        for name, cfg in self.configs.items():
            for port in cfg.ports:
                self.hosts[name].port_event(port.number, True, 0.0)

    def make_endpoint(self, config: NodeConfig, rng: random.Random, log: Callable[[dict[str, Any]], None]) -> Any:
        """The transport of one host; for simulations of others."""
        return MrcEndpoint(config, rng, log)

    def adapt(self, config: NodeConfig) -> NodeConfig:
        """A host's config as this simulation wants it."""
        return config

    def _logger(self, name: str) -> Callable[[dict[str, Any]], None]:
        return lambda record: self.hear(name, record)

    def hear(self, name: str, record: dict[str, Any]) -> None:
        """Keep a record of a host; tests that act on one put a function of their own here."""
        self.records.append({"t": self.now, "node": name, **record})

    # --- use --------------------------------------------------------------------------------------

    def clean(self, transit: Transit) -> list[float]:
        """An idle fabric: one copy after the path's delay."""
        return [self.delay(transit)]

    def delay(self, transit: Transit) -> float:
        """Propagation of the path."""
        return (4 if transit.uplink else 2) * HOP

    def connect(self, a: str, b: str, first_psn: int | None = None, **attributes: Any) -> tuple[int, int]:
        """A pair of QPs in RTS; `first_psn` on the wire of a, else drawn."""
        qa = self.hosts[a].verbs.create_qp(self.configs[b].host.address, 0.0, **attributes)
        qb = self.hosts[b].verbs.create_qp(self.configs[a].host.address, 0.0, **attributes)
        if first_psn is not None:
            self.hosts[a].verbs.qps[qa].first_psn = first_psn
        info_a, info_b = self.hosts[a].verbs.local_info(qa), self.hosts[b].verbs.local_info(qb)
        self.hosts[a].verbs.connect(qa, info_b, 0.0)
        self.hosts[b].verbs.connect(qb, info_a, 0.0)
        return qa, qb

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        heapq.heappush(self._events, (when, next(self._serial), action))

    def run(self, until: float = 60.0, done: Callable[[], bool] | None = None) -> None:
        """Let time pass until `until`, or until `done` says so."""
        self.kick()
        while done is None or not done():
            upcoming = self._events[0][0] if self._events else None
            deadlines = [d for host in self.hosts.values() if (d := host.next_deadline()) is not None]
            timer = min(deadlines, default=None)
            times = [t for t in (upcoming, timer) if t is not None]
            if not times or min(times) > until:
                self.now = until
                return
            self.now = max(self.now, min(times))
            if timer is not None and timer <= self.now:
                for host in self.hosts.values():
                    host.on_timer(self.now)
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self.kick()

    # --- inside -----------------------------------------------------------------------------------

    def kick(self) -> None:
        """Let every port that is free send."""
        progress = True
        while progress:
            progress = False
            for (name, port), free_at in self._free_at.items():
                if free_at <= self.now and self.hosts[name].has_work(port, self.now):
                    frame = self.hosts[name].next_frame(port, self.now)
                    if frame is not None:
                        progress = True
                        self._launch(
                            name, port, b"".join((frame.header, frame.payload or b"", frame.trailer)), frame.wire_len
                        )
                        self._schedule_free(name, port)

    def _schedule_free(self, name: str, port: int) -> None:
        self.at(self._free_at[name, port], lambda: None)

    def _launch(self, name: str, port: int, data: bytes, wire_len: int) -> None:
        assert len(data) == wire_len
        self._free_at[name, port] = self.now + wire_len / (FULL_SIZE + 142) / RATE
        outer = srv6.from_bytes(data[38:54])
        inner = srv6.from_bytes(data[78:94])
        destination = self._by_address[inner]
        plane, uplink, _ = srv6.ev_fields(srv6.ev_of_address(outer))
        assert self._port_in[name, plane] == port
        transit = Transit(name, destination, bytearray(data), self.now, next(self._serial), plane, uplink)
        host = self.configs[destination].host
        transit.data[38:54] = srv6.to_bytes(srv6.nic_route(plane, host.downlink) << 80)
        if self.keep_sent:
            self.sent.append(transit)
        if self.before_send is not None:
            self.before_send(name, transit)
        arrival = self._port_in[destination, plane]
        for delay in self.network(transit):
            copy = bytes(transit.data)
            self.at(self.now + delay, lambda copy=copy: self.hosts[destination].receive(arrival, copy, self.now))


class Transfer:
    """One buffer at the sender, one of the same size at the receiver, and the writes between them."""

    def __init__(
        self,
        sim: Simulation,
        a: str,
        b: str,
        size: int,
        seed: int = 7,
        guard: int = 0,
        first_psn: int | None = None,
        **attributes: Any,
    ) -> None:
        self.sim, self.a, self.b = sim, a, b
        self.qa, self.qb = sim.connect(a, b, first_psn, **attributes)
        self.source = bytearray(random.Random(seed).randbytes(size))
        self._around = bytearray(b"\xa5" * (size + 2 * guard))
        self.guard = guard
        self.target = memoryview(self._around)[guard : guard + size]
        self.target[:] = bytes(size)
        self.local = sim.hosts[a].verbs.reg_mr(self.source)
        self.remote = sim.hosts[b].verbs.reg_mr(self.target)
        self.completions: list[Any] = []
        self.posted = 0

    def write(self, offset: int, length: int, imm: int | None = None) -> None:
        """Post one write to the same offset."""
        opcode = "RDMA_WRITE" if imm is None else "RDMA_WRITE_WITH_IMM"
        self.sim.hosts[self.a].verbs.post_send(
            self.qa,
            self.posted,
            opcode,
            self.local.lkey,
            offset,
            length,
            self.remote.va + offset,
            self.remote.rkey,
            imm,
            self.sim.now,
        )
        self.posted += 1

    def guards_intact(self) -> bool:
        """Return True if nothing was written outside the region."""
        guard = b"\xa5" * self.guard
        return self._around[: self.guard] == guard and self._around[len(self._around) - self.guard :] == guard

    def done(self) -> bool:
        """Poll; whether all that was posted has completed."""
        self.completions += self.sim.hosts[self.a].verbs.poll_cq()
        return len(self.completions) >= self.posted

    def stats(self) -> Any:
        """Sender's counters."""
        return self.sim.hosts[self.a].verbs.qps[self.qa].stats
