"""State of two hosts and the frames between them; and all possible next actions.

The hosts are the transport's own endpoints. A frame is due half a base RTT after it was sent, and may come at any time
from then on, in any order with others; a timer fires when it is due. A timer that fires while due frames are still in
flight is a fault, like a loss.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from mrclab.controller import nodefiles
from mrclab.experiments import invariants
from mrclab.experiments.explore import packets
from mrclab.experiments.explore.draws import Draws
from mrclab.experiments.explore.packets import Flight, flight
from mrclab.experiments.explore.worlds import MTU, Space
from mrclab.hosts.mrc import endpoint_ops
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.events import discard_record
from mrclab.hosts.rdma.memory import Access
from mrclab.hosts.rdma.states import QpState
from mrclab.sim.frame import TRIM_BYTES
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, LinkSpec

GUARD: Final = 16
DELAY: Final = 0.25e-3  # seconds per link: a base RTT of 2 ms over four
_UNTOUCHED: Final = 0xA5
_FIRST_PSN: Final = 0xFFFFFE  # the numbers wrap in every world
_EXPONENT: Final = 14  # an ACK timeout of 8.4 base RTTs
_ID_MASK: Final = endpoint_ops._ID_MASK
BEGAN: Final = 1.000000317  # seconds: nothing was before; whole µs would be cut off to one more or less
_SAME_TIME: Final = 0.6e-9  # seconds: more than rounding to 1 ns takes off; timers closer than it fire in one step
_PROBES_AT_ONCE: Final = 3
_PROBE_WAIT: Final = 0.5  # seconds, of EV probes
_MAX_FRAMES: Final = 64  # from one event: more are a storm
_PLAIN_WRITE, _WITH_IMM = "RDMA_WRITE", "RDMA_WRITE_WITH_IMM"

Action = tuple[str, int]  # action, and its frame, port or host
FAULTS: Final = frozenset(
    {"lose", "duplicate", "mark", "trim", "trim-last-hop", "overtake", "late", "down", "restart"}
)  # actions that take from the budget
OPTIONAL: Final = ("receive", "up", "probe")  # actions of applications and cables, which are optional

_CHANGED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "duplicate": bytes,  # behind the frame itself
    "mark": packets.marked,
    "trim": functools.partial(packets.trimmed, last_hop=False),
    "trim-last-hop": functools.partial(packets.trimmed, last_hop=True),
}
"""Faults that send a frame on as another one."""


class Broken(Exception):  # noqa: N818  no error, but what the search looks for
    """An invariant does not hold."""


def _all_hold(*checks: Iterator[str]) -> None:
    """Raise Broken with the first violation that some checks find."""
    for phrase in itertools.chain(*checks):
        raise Broken(phrase)


@functools.cache
def _configs(world: Space) -> tuple[NodeConfig, NodeConfig]:
    """Return the hosts' configs."""
    link = LinkSpec(rate_pps=1000, delay=DELAY)
    spec = FabricSpec(
        planes=world.planes, t0s=2, t1s=world.t1s, hosts_per_t0=1, path_mtu=MTU, link=link, switch_latency=0.0
    )
    attributes = {
        "timeout_exponent": _EXPONENT, "sack_gen_threshold": 0, "retry_linear": 1, "retry_exponential": 4,
        **world.attributes,
    }  # fmt: skip
    cc = attributes.pop("congestion_control", "none")
    profile = {"probe_interval_rtts": 4.0, "probe_timeout_rtts": 2.0, "successes_needed": 1, "ev_min_active": 1}
    choice = TransportSpec(congestion_control=cc, attributes=attributes, ev_profile={**profile, **world.ev_profile})
    made = nodefiles.node_configs(Fabric(spec), choice=choice)
    return made["h1"], made["h2"]


class System:
    """One state of a world."""

    def __init__(self, world: Space) -> None:
        self.world = world
        self.configs = _configs(world)
        self.now = BEGAN
        self.base_rtt = self.configs[0].longest_rtt
        self.network: list[Flight] = []
        self.launched = 0
        self.sent_data = self.sent_frames = 0
        self.budget = world.budget
        self.receives = sum(imm for _, imm in world.messages) if world.late_receives else 0  # not yet posted
        self.probes = world.probes
        self.probed = 0  # answers to them
        self.restarted = -1
        self.down: list[tuple[int, int]] = []  # (host, port)
        self.hosts: list[Any] = [self._host(0), self._host(1)]
        self.source = bytes(index * 7 + 1 & 0xFF for index in range(world.bytes))
        self.qps: list[tuple[int, int]] = []
        self.cqs: list[tuple[int, int]] = []
        self.targets: list[bytearray] = []
        self.completed: list[int] = [0] * world.qps
        self.received: list[int] = [0] * world.qps
        for _ in range(world.qps):
            self._connect()
        self.pump()

    def _host(self, index: int) -> MrcEndpoint:
        made = MrcEndpoint(self.configs[index], Draws(), discard_record, random.Random(index))
        for port in self.configs[index].ports:
            made.port_event(port.number, (index, port.number) not in self.down, self.now)
        return made

    def _connect(self) -> None:
        world = self.world
        one, two = self.hosts
        cqs = one.verbs.create_cq(), two.verbs.create_cq()
        qa = one.verbs.create_qp(self.configs[1].host.address, self.now, send_cq=cqs[0])
        qb = two.verbs.create_qp(self.configs[0].host.address, self.now, recv_cq=cqs[1])
        one.verbs.qps[qa].first_psn = two.verbs.qps[qb].first_psn = _FIRST_PSN
        info = one.verbs.local_info(qa), two.verbs.local_info(qb)
        one.verbs.connect(qa, info[1], self.now)
        two.verbs.connect(qb, info[0], self.now)
        target = bytearray([_UNTOUCHED]) * (world.bytes + 2 * GUARD)
        local, remote = one.verbs.reg_mr(self.source, Access(0)), two.verbs.reg_mr(target)
        self.qps.append((qa, qb))
        self.cqs.append(cqs)
        self.targets.append(target)
        at = 0
        for number, (size, imm) in enumerate(world.messages):
            if imm and not world.late_receives:
                two.verbs.post_recv(qb, number, self.now)
            one.verbs.post_send(
                qa, number, _WITH_IMM if imm else _PLAIN_WRITE, local.lkey, at, size, remote.va + GUARD + at,
                remote.rkey, number if imm else None, self.now,
            )  # fmt: skip
            at += size

    # --- possible actions -------------------------------------------------------------------------

    def deadline(self) -> float:
        """Return the time of the next timer; infinity where none is armed."""
        found = [deadline for host in self.hosts if (deadline := host.next_deadline()) is not None]
        return min(found, default=float("inf"))

    def actions(self) -> list[Action]:
        """Return all actions that are possible next, the likeliest first."""
        deadline = self.deadline()
        found: list[Action] = []
        seen: set[tuple[Any, ...]] = set()
        distinct: list[Flight] = []
        for one in sorted(self.network, key=lambda one: (one.due, one.serial)):
            same = one.destination, one.port, one.content, one.stamp, one.id_kind, one.id, max(one.due, self.now)
            if same not in seen:
                seen.add(same)
                distinct.append(one)
        behind: set[tuple[int, int, bool]] = set()
        for one in distinct:
            channel = one.destination, one.plane, one.dscp == h.Dscp.CONTROL
            if max(one.due, self.now) <= deadline:
                if self.world.any_order or channel not in behind:
                    found.append(("deliver", one.serial))
                elif self.budget and "overtake" in self.world.faults:
                    found.append(("overtake", one.serial))
            behind.add(channel)
        if deadline < float("inf"):
            first = min((one.due for one in self.network), default=float("inf"))
            if first >= deadline:
                found.append(("timer", 0))
            elif self.budget and "late" in self.world.faults:
                found.append(("late", 0))
        found += self._of_applications()
        if self.budget:
            found += self._faults(distinct)
        return found

    def _of_applications(self) -> Iterator[Action]:
        if self.receives and self.restarted < 0:
            yield "receive", 0
        sent = self.world.probes - self.probes
        if self.probes and sent - self.probed < _PROBES_AT_ONCE:
            yield "probe", 0
        for at in range(len(self.down)):
            yield "up", at

    def _faults(self, distinct: list[Flight]) -> Iterator[Action]:
        kinds = self.world.faults
        for one in distinct:
            if "lose" in kinds or ("lose-data" in kinds and one.is_write):
                yield "lose", one.serial
            if "duplicate" in kinds:
                yield "duplicate", one.serial
            if one.is_write and len(one.data) > TRIM_BYTES:
                if "mark" in kinds and not one.marked:
                    yield "mark", one.serial
                if "trim" in kinds:
                    yield "trim", one.serial
                    yield "trim-last-hop", one.serial
        if "down" in kinds:
            for host, config in enumerate(self.configs):
                for port in config.ports:
                    if (host, port.number) not in self.down:
                        yield "down", host << 8 | port.number
        if "restart" in kinds and self.restarted < 0:
            yield "restart", 0
            yield "restart", 1

    # --- actions ----------------------------------------------------------------------------------

    def do(self, action: Action) -> None:
        """Apply an action, and let the hosts send; Broken where an invariant is violated then."""
        kind, which = action
        self.budget -= kind in FAULTS
        endpoint_ops._ID_MASK = self.world.id_mask or _ID_MASK  # type: ignore[misc]
        try:
            if kind in _CHANGED:
                self._change(kind, which)
            else:
                getattr(self, f"_do_{kind}")(which)
            self.pump()
            self.check()
        finally:
            endpoint_ops._ID_MASK = _ID_MASK  # type: ignore[misc]

    def _take(self, serial: int) -> Flight:
        at = next(at for at, one in enumerate(self.network) if one.serial == serial)
        return self.network.pop(at)

    def _do_deliver(self, serial: int) -> None:
        one = self._take(serial)
        self.now = max(self.now, one.due)
        if (one.destination, one.port) not in self.down:
            self.hosts[one.destination].receive(one.port, one.data, self.now)

    def _do_timer(self, _: int) -> None:
        self.now = max(self.now, round(self.deadline(), 9))
        while (due := self.deadline()) <= self.now + _SAME_TIME:
            for host in self.hosts:
                host.on_timer(max(due, self.now))

    _do_late = _do_timer
    _do_overtake = _do_deliver

    def _do_lose(self, serial: int) -> None:
        self._take(serial)

    def _change(self, kind: str, serial: int) -> None:
        one = self._take(serial)
        if kind == "duplicate":
            self.network.append(one)
        self.network.append(one.changed(self._serial(), _CHANGED[kind](one.data)))

    def _do_down(self, which: int) -> None:
        host, port = which >> 8, which & 0xFF
        self.down.append((host, port))
        self.hosts[host].port_event(port, False, self.now)

    def _do_up(self, at: int) -> None:
        host, port = self.down.pop(at)
        self.hosts[host].port_event(port, True, self.now)

    def _do_restart(self, host: int) -> None:
        self.restarted = host
        self.hosts[host] = self._host(host)

    def _do_receive(self, _: int) -> None:
        self.receives -= 1
        at = [number for number, (_, imm) in enumerate(self.world.messages) if imm][-self.receives - 1]
        two = self.hosts[1]
        for _, qp in self.qps:
            two.verbs.post_recv(qp, at, self.now)

    def _do_probe(self, _: int) -> None:
        self.probes -= 1
        two = self.hosts[1]
        plane = self.configs[1].ports[0].plane
        value = srv6.ev(plane, self.configs[1].uplinks(plane)[0], srv6.ev_tag(0))
        two.ctl.probe_evs(self.configs[0].host.address, [value], _PROBE_WAIT, self._probed, self.now)

    def _probed(self, results: list[Any]) -> None:
        self.probed += len(results)

    def _serial(self) -> int:
        self.launched += 1
        return self.launched

    def pump(self) -> None:
        """Let every port send all that it has, a frame of each port in turn."""
        sent, more = 0, True
        while more:
            more = False
            for index, host in enumerate(self.hosts):
                for port in self.configs[index].ports:
                    if host.has_work(port.number, self.now):
                        frame = host.next_frame(port.number, self.now)
                        if frame is not None:
                            more = True
                            sent += 1
                            self._launch(index, b"".join((frame.header, frame.payload or b"", frame.trailer)))
            if sent > _MAX_FRAMES:
                raise Broken(f"a storm: more than {_MAX_FRAMES} frames from one event")

    def _launch(self, source: int, data: bytes) -> None:
        destination = 1 - source
        plane = packets.plane_of(data)
        config = self.configs[destination]
        port = next(port.number for port in config.ports if port.plane == plane)
        route = srv6.to_bytes(srv6.nic_route(plane, config.host.downlink) << 80)
        arriving = data[:38] + route + data[54:]
        made = flight(
            self._serial(), source, destination, plane, port, arriving, round(self.now + self.base_rtt / 2, 9)
        )
        self.sent_frames += 1
        self.sent_data += made.is_write
        self.network.append(made)

    # --- invariants -------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the invariants of every moment; Broken names the one that fails."""
        one, two = self.hosts
        for at, (qa, qb) in enumerate(self.qps):
            if self.restarted != 0:
                self._check_sender(at, one, one.verbs.qps[qa])
            if self.restarted != 1:
                self._check_receiver(at, two, two.verbs.qps[qb])
        if self.restarted < 0:
            self._check_pairs()

    def _check_pairs(self) -> None:
        one, two = self.hosts
        for qa, qb in self.qps:
            window, base = one.verbs.qps[qa].requestor.recovery.window, two.verbs.qps[qb].responder.base
            if one.verbs.qps[qa].state is QpState.RTS and window.una > base:
                raise Broken(f"the sender counts {window.una} packets as arrived, the receiver {base}")
            if two.verbs.qps[qb].stats.out_of_window:
                raise Broken("a packet was sent outside the receiver's window")

    def _check_sender(self, at: int, host: Any, qp: Any) -> None:
        failed = qp.state is QpState.ERROR
        if failed and not self.world.may_fail:
            raise Broken("the QP is in ERROR")
        for done in host.verbs.poll_cq(self.cqs[at][0]):
            if done.wr_id != self.completed[at]:
                raise Broken(f"write {done.wr_id} completes where {self.completed[at]} is next")
            if done.status != "SUCCESS" and not failed:
                raise Broken(f"write {done.wr_id} completes with {done.status}")
            self.completed[at] += 1
            if done.status == "SUCCESS" and self.restarted != 1:
                self._check_placed(at, done.wr_id + 1)
        in_flight = qp.requestor.in_flight_bytes
        if not in_flight.packets and in_flight.bytes and not failed:
            raise Broken(f"{in_flight.bytes} bytes are counted in flight, and no packet is")
        _all_hold(invariants.in_flight(qp), invariants.windows(host))

    def _check_placed(self, at: int, messages: int) -> None:
        size = sum(size for size, _ in self.world.messages[:messages])
        if self.targets[at][GUARD : GUARD + size] != self.source[:size]:
            raise Broken(f"of {messages} completed writes not all bytes are in place")

    def _check_receiver(self, at: int, host: Any, qp: Any) -> None:
        target = self.targets[at]
        around = bytes([_UNTOUCHED]) * GUARD
        if target[:GUARD] != around or target[-GUARD:] != around:
            raise Broken("bytes outside the written memory were touched")
        with_imm = [(number, size) for number, (size, imm) in enumerate(self.world.messages) if imm]
        for got in host.verbs.poll_cq(self.cqs[at][1]):
            if got.status != "SUCCESS":
                if not self.world.may_fail:
                    raise Broken(f"a receive completes with {got.status}")
                continue
            number, size = with_imm[self.received[at]]
            if (got.wr_id, got.imm, got.byte_len) != (number, number, size):
                raise Broken(f"receive {got.wr_id} has immediate {got.imm} of {got.byte_len} bytes; {number} is next")
            self.received[at] += 1
            if self.restarted != 0:
                self._check_placed(at, number + 1)
        packets_in_all = self.world.packets
        if qp.stats.placed_packets > packets_in_all or qp.stats.placed_bytes > self.world.bytes:
            raise Broken(f"{qp.stats.placed_packets} packets were placed of {packets_in_all}")

    def check_end(self) -> None:
        """Check the invariants of a state in which nothing more happens; Broken names the one that fails."""
        if self.restarted < 0:
            for at, (qa, qb) in enumerate(self.qps):
                self._check_over(at, self.hosts[0].verbs.qps[qa], self.hosts[1].verbs.qps[qb])
        else:
            self._check_survivor()
        if self.probed != self.world.probes and not self.probes:
            raise Broken(f"{self.probed} of {self.world.probes} EV probes have their result")

    def _check_over(self, at: int, qa: Any, qb: Any) -> None:
        if qa.state is QpState.ERROR:
            return  # it may, and all is flushed: _check_sender
        if self.completed[at] < len(self.world.messages):
            raise Broken(
                f"nothing more happens, and {self.completed[at]} of {len(self.world.messages)} writes are over"
            )
        if self.received[at] < sum(imm for _, imm in self.world.messages):
            raise Broken("nothing more happens, and an immediate was not received")
        _all_hold(
            invariants.at_rest(qa),
            invariants.all_received(qa, qb),
            invariants.paths(qa, ports_down=bool(self.down)),
            *(() if self.down else (invariants.peer_ports(one, one.config.directory.values()) for one in self.hosts)),
        )

    def _check_survivor(self) -> None:
        """After the restart of one host of a pair, outstanding work ends with a reason."""
        if self.restarted == 0:
            return
        for at, (qa, _) in enumerate(self.qps):
            if self.completed[at] < len(self.world.messages):
                state = self.hosts[0].verbs.qps[qa].state.value
                raise Broken(f"the peer restarted, and the QP waits forever in {state}")
