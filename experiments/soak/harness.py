"""A plan executed in virtual time: transports on simulated NICs, transfers between them, and faults."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mrclab.controller import nodefiles
from mrclab.controller.health.denylist import DenyError, Denylist
from mrclab.controller.health.elements import element
from mrclab.experiments.soak.plan import NEVER, SoakFault, SoakFlow, SoakPlan
from mrclab.experiments.soak.transfers import SoakConnection
from mrclab.hosts import transports
from mrclab.hosts.rdma.events import discard_record
from mrclab.sim.clock import Clock, ticks
from mrclab.sim.codec import OBJECTS
from mrclab.sim.fabric import SimFabric
from mrclab.sim.injector import SimFaultInjector
from mrclab.sim.nic import SimNic
from mrclab.topo.cables.cablefaults import Corrupt, Drop, Match, RateLimit, SeededLoss
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.config.transport import TransportSpec

_MAX_BACKGROUND = 3000  # packets: it costs time and finds nothing more
_Undo = Callable[[], object]


class SoakHarness:
    """Fabric, hosts and timers of one plan, at time 0.

    `connections` are those begun, `ended` those of which a QP was destroyed or a host restarted.
    """

    def __init__(self, plan: SoakPlan) -> None:
        self.plan = plan
        self.clock = Clock()
        self.fabric = SimFabric(self.clock, plan.fabric, plan.seed)
        self.injector = SimFaultInjector(self.fabric, plan.seed)
        self.denylist = Denylist(plan.fabric)
        self.transports: dict[str, Any] = {}
        self.nics: dict[str, SimNic] = {}
        self.connections: list[SoakConnection] = []
        self.ended: list[SoakConnection] = []
        self._choice = TransportSpec(kind=plan.transport, ev_profile=plan.ev_profile)
        self._configs: dict[str, NodeConfig] = {}
        self._incarnations = 0
        self._down: dict[tuple[str, int], int] = {}
        self._make_configs()
        for link, longer in plan.slow:
            self.injector.impair(link, Impairment(delay=longer), direction="both", seed=plan.seed)
        for host in plan.fabric.hosts:
            self._start(host.name)
        self._schedule()

    def after(self, seconds: float, work: Callable[[], object]) -> None:
        """Call a function after some seconds."""
        self._at(self.clock.now + ticks(seconds), work)

    def at(self, seconds: float, work: Callable[[], object]) -> None:
        """Call a function at a time; every host is served afterwards."""
        self._at(ticks(seconds), work)

    def _at(self, when: int, work: Callable[[], object]) -> None:
        def run(_about: object) -> None:
            work()
            for nic in self.nics.values():
                nic.serve()

        self.clock.call_at(when, run)

    def _schedule(self) -> None:
        plan = self.plan
        for flow in plan.flows:
            self.at(flow.start, functools.partial(self._begin, flow))
        for fault in plan.faults:
            self.at(fault.at, functools.partial(self._start_fault, fault))
        for seconds, host in plan.restarts:
            self.at(seconds, functools.partial(self._restart_host, host))

    def _begin(self, flow: SoakFlow) -> None:
        for _ in range(flow.qps):
            made = SoakConnection(self, flow)
            self.connections.append(made)
            if flow.ends != NEVER:
                self.after(max(0.0, flow.ends - self.clock.seconds), functools.partial(self._remake, made))

    def _remake(self, connection: SoakConnection) -> None:
        """Replace a connection: one end destroys its QP, the other does so when notified, and both create others."""
        if connection not in self.connections:
            return  # a restart ended it
        flow = connection.flow
        self._end(connection, flow.source, flow.notice_delay)
        again = replace(flow, qps=1, ends=NEVER)
        self.after(flow.notice_delay, functools.partial(self._begin, again))

    def _end(self, connection: SoakConnection, first: str, notice: float) -> None:
        """Destroy the QP at the host `first` now, and the other one `notice` seconds later."""
        for writes in connection.writes:
            writes.poll()
        self.connections.remove(connection)
        self.ended.append(connection)
        at = connection.hosts.index(first)
        connection.destroy(at)
        self.after(notice, functools.partial(connection.destroy, 1 - at))

    # --- hosts --------------------------------------------------------------------------------------------------------

    def _make_configs(self) -> None:
        denied = self.denylist.by_host()
        version = self.denylist.version
        self._configs = nodefiles.node_configs(self.plan.fabric, version, denied, None, self._choice)

    def _start(self, name: str) -> None:
        self._incarnations += 1
        config, wire = self._configs[name], self.plan.wire_format
        rng = random.Random(f"{self.plan.seed}/{name}/{self._incarnations}")
        codecs = transports.WIRE if wire else OBJECTS
        made = transports.endpoint(config, rng, discard_record, codecs=codecs)
        nic = SimNic(self.clock, self.fabric.nic_cable, wire, config, made)
        self.transports[name], self.nics[name] = made, nic
        self.fabric.connect(name, nic)

    def _restart_host(self, name: str) -> None:
        """Replace a host's process; peers of the old one destroy their QPs when notified."""
        for connection in (*self.connections, *self.ended):
            if name in connection.hosts:
                connection.alive[connection.hosts.index(name)] = False
        for connection in [one for one in self.connections if name in one.hosts]:
            self._end(connection, name, self.plan.notice)
        self._start(name)
        for flow in self.plan.after:
            self._begin(flow)

    # --- faults -------------------------------------------------------------------------------------------------------

    def _start_fault(self, fault: SoakFault) -> None:
        undo = getattr(self, f"_do_{fault.kind}")(fault, **fault.fields)
        if undo is not None:
            self.at(fault.until, undo)

    def _do_link_down(self, fault: SoakFault, links: list[str]) -> _Undo:
        owner = f"link-down-{fault.at}"
        self.injector.hold_down(owner, *links)
        return lambda: self.injector.release(owner)

    def _do_flap(self, fault: SoakFault, links: list[str], edges: int) -> _Undo:
        owner, length = f"flap-{fault.at}", (fault.until - fault.at) / edges

        def edge(number: int) -> None:
            if number % 2 == 0:
                self.injector.hold_down(owner, *links)
            else:
                self.injector.release(owner)

        for number in range(edges):
            self.at(fault.at + number * length, functools.partial(edge, number))
        return lambda: self.injector.release(owner)

    def _inject(self, link: str, direction: Any, action: Any, match: Match) -> _Undo:
        return self.injector.inject([(link, action)], match=match, direction=direction).clear

    def _do_loss(self, fault: SoakFault, link: str, direction: str, rate: float, least: int) -> _Undo:
        seed = f"{self.plan.seed}/{fault.at}"
        return self._inject(link, direction, SeededLoss(rate, seed, 64), Match(min_length=least))

    def _do_corrupt(self, fault: SoakFault, link: str, direction: str, rate: float, offset: int) -> _Undo:
        return self._inject(link, direction, Corrupt(rate, offset), Match())

    def _do_rate_limit(self, fault: SoakFault, link: str, direction: str, rate_pps: int) -> _Undo:
        return self._inject(link, direction, RateLimit(rate_pps), Match())

    def _do_ev_loss(self, fault: SoakFault, link: str, direction: str, path: tuple[int, int]) -> _Undo:
        return self._inject(link, direction, Drop(), Match(paths=(path,)))

    def _do_impair(self, fault: SoakFault, link: str, direction: Any, **impairment: Any) -> _Undo | None:
        impaired = Impairment(**impairment)
        if any(self.fabric.cable(link).half_links[side].detour is not None for side in (0, 1)):
            return None
        return self.injector.impair(link, impaired, direction=direction, seed=self.plan.seed).clear

    def _do_swap_cables(self, fault: SoakFault, links: list[str]) -> _Undo | None:
        if any(self.fabric.cable(link).swapped for link in links) or links[0] == links[1]:
            return None
        self.injector.swap(*links)
        return lambda: self.injector.swap(*links)

    def _do_switch_crash(self, fault: SoakFault, switch: str) -> _Undo:
        known = self.fabric.switches[switch]
        known.die()

        def restart() -> None:
            known.revive()
            known.provision()

        return restart

    def _do_switch_freeze(self, fault: SoakFault, switch: str) -> _Undo:
        known = self.fabric.switches[switch]
        known.freeze()
        return known.thaw

    def _do_wrong_entry(self, fault: SoakFault, switch: str, port: int, to: int) -> _Undo:
        known = self.fabric.switches[switch]
        if known.alive:
            known.route(known.model.port(port).usid, to or None)
        return lambda: known.provision() if known.alive else None

    def _do_background(
        self, fault: SoakFault, source: str, destination: str, path: tuple[int, int], rate_pps: float
    ) -> _Undo:
        size = self.plan.fabric.spec.path_mtu
        rate_pps = min(rate_pps, _MAX_BACKGROUND / (fault.until - fault.at))
        return self.injector.background(source, destination, path, rate_pps, size, f"background-{fault.at}").clear

    def _do_deny(self, fault: SoakFault, what: str) -> _Undo | None:
        source = f"soak-{fault.at}"
        found = element(self.plan.fabric, what)
        if self.plan.transport != "mrc":
            return None
        try:
            self.denylist.deny(found, "", source)
        except DenyError:
            return None
        self._update_configs()

        def undo() -> None:
            self.denylist.undeny(found, source)
            self._update_configs()

        return undo

    def _update_configs(self) -> None:
        self._make_configs()
        for name, transport in self.transports.items():
            transport.update_config(self._configs[name], self.clock.seconds)

    def _do_port_admin(self, fault: SoakFault, host: str, port: int) -> _Undo:
        self._admin(host, port, +1)
        return lambda: self._admin(host, port, -1)

    def _admin(self, host: str, port: int, by: int) -> None:
        """Enable a port when no fault disables it any more; a host that was restarted meanwhile has forgotten it."""
        requests = self._down[host, port] = self._down.get((host, port), 0) + by
        self.transports[host].ports.set_admin(port, requests == 0, self.clock.seconds)
