"""The controller in virtual time: drives the core over the simulated fabric; switches and hosts are notified at once.

No P4Runtime, no process, no file: core, Clustermapper, denylist and node configs are the controller's very classes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mrclab.controller import nodefiles
from mrclab.controller.core import ControllerCore
from mrclab.controller.driver import Audit, Driver
from mrclab.controller.health.denylist import Denylist
from mrclab.controller.metrics import page as metrics
from mrclab.controller.operations import run_to_end
from mrclab.events.controller import NodesWritten
from mrclab.events.event import Event
from mrclab.events.switches import SwitchTotals
from mrclab.hosts.agent.host import RunningHost
from mrclab.sim.clock import ticks
from mrclab.sim.fabric import SimFabric
from mrclab.sim.fleet import SimFleet
from mrclab.sim.nic import SimNic
from mrclab.topo.config.nodeconfig import MapperSection, NodeConfig
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.controller.metrics.server import MetricsServer

TELEMETRY_S: Final = 1.0
"""Between two records of all switches' counters."""

NO_TRANSPORTS: Final[Mapping[str, TransportSpec]] = {}
_LONGEST_STEP_S: Final = 0.01
_POLICY: Final[dict[bool | str, str]] = {True: "default", False: "observe", "all": "all"}


class SimHosts:
    """The hosts as the controller serves them: their configs, made again with each change of the denylist."""

    def __init__(
        self,
        denylist: Denylist,
        record: Callable[[Event], object],
        make: Callable[[Denylist], Mapping[str, NodeConfig]],
    ) -> None:
        self.running: dict[str, RunningHost] = {}
        self.gone: Collection[str] = ()  # hosts that were ended
        self.start_host: Callable[[str], object] = lambda _host: None  # creates a host that was not needed before
        self.configs: Mapping[str, NodeConfig] = {}
        self._denylist = denylist
        self._record = record
        self._make = make

    @property
    def version(self) -> int:
        """Version of the node configs."""
        return self._denylist.version

    @property
    def versions(self) -> dict[str, int]:
        """Version of the node config that each host uses; 0: it is not there."""
        return {name: 0 if name in self.gone else self.version for name in self.configs}

    @property
    def unresponsive(self) -> dict[str, str]:
        """Empty: a host of virtual time responds at once, or has ended."""
        return {}

    def publish(self) -> None:
        """Make the hosts' configs again, and notify the hosts."""
        self.configs = self._make(self._denylist)
        self._record(NodesWritten(hosts=len(self.configs), version=self.version))
        for name, host in self.running.items():
            host.update(functools.partial(self.configs.__getitem__, name))

    async def notified(self) -> None:
        """Do nothing: hosts are notified at once."""

    async def ports(self) -> dict[str, Sequence[tuple[str, bool]] | str]:
        """NIC ports by host: name, and whether it is up; or why the host cannot be queried."""
        return {name: self._ports_of(name) for name in self.configs}

    def _ports_of(self, name: str) -> Sequence[tuple[str, bool]] | str:
        self.start_host(name)
        host = self.running.get(name)
        if host is None:
            return "it has ended"
        assert isinstance(host.nic, SimNic)
        return [(port.config.name, port.up) for port in host.nic.ports]


class SimController(Driver):
    """`write(event)` keeps an event; `advance(seconds)` runs the world for an operation that waits."""

    decimals = 9
    fleet: SimFleet
    nodes: SimHosts
    began = 0.0

    def __init__(
        self,
        fabric: SimFabric,
        transport: TransportSpec,
        mapper: Mapping[str, Any] | None,
        write: Callable[[Event], object],
        advance: Callable[[float], None],
        of_hosts: Mapping[str, TransportSpec] = NO_TRANSPORTS,
    ) -> None:
        self.fabric: Fabric = fabric.model
        self._clock = fabric.clock
        self._write = write
        self._advance = advance
        denylist = Denylist(self.fabric)
        self.fleet = SimFleet(fabric, self.record, self.check_verified)
        self.cable_states = self.fleet.states
        self._section: MapperSection | None = None
        self._agents = self.fabric.spec.hosts_per_t0
        if mapper is not None:
            from mrclab.controller.health.mapper import Clustermapper  # noqa: PLC0415 - most runs have none
            from mrclab.controller.health.policy import POLICIES  # noqa: PLC0415

            cycle = float(mapper["cycle"])
            self._section = nodefiles.mapper(self.fabric, cycle, int(mapper.get("t1s") or 0))
            self._agents = min(int(mapper.get("agents") or self._agents), self._agents)
            policy = POLICIES[_POLICY[mapper.get("deny", True)]]
            policy = replace(policy, hold_down=policy.hold_down * self.fabric.spec.time_scale)
            self.mapper = Clustermapper(self.fabric, lambda: denylist.denials, self.record, cycle, policy)
        self._page: MetricsServer | None = None
        self._page_text = ""  # written by the world's thread alone

        def configs(denied: Denylist) -> Mapping[str, NodeConfig]:
            given = self._section, transport, self._agents, of_hosts
            return nodefiles.Configs(self.fabric, denied.version, denied.by_host(), *given)

        self.nodes = SimHosts(denylist, self.record, configs)
        self.core = ControllerCore(self, denylist, self.mapper, sender_chooses=transport.kind == "mrc")
        self.nodes.publish()

    @property
    def alive(self) -> bool:
        """True if there is a controller."""
        return self.fleet.on

    def record(self, event: Event) -> None:
        """Record an event at the current time, while there is a controller."""
        if self.alive:
            self._write(event)

    @property
    def probing(self) -> Iterator[str]:
        """Hosts that take part in Clustermapper."""
        if self._section is not None:
            down = self.fabric.spec.hosts_per_t0
            for group in range(self.fabric.spec.t0s):
                yield from (self.fabric.host_names[group * down + place] for place in range(self._agents))

    def begin(self) -> None:
        """Start periodic work."""
        if not self.fleet.is_large:
            self._every(TELEMETRY_S * self.fabric.spec.telemetry_scale, self._sample)
        if self.mapper is not None:
            self._every(self.mapper.interval, self._follow_mapper)
        self.fleet.begin()

    def end(self) -> None:
        """Stop the controller; state of switches and hosts stays."""
        self.fleet.on = False
        self.close()

    def close(self) -> None:
        """Stop serving the metrics page."""
        if self._page is not None:
            self._page.close()
            self._page = None

    def begin_again(self) -> None:
        """Start another controller, which adopts the denylist and the switches as they are."""
        self.fleet.on = True
        if self.mapper is not None:
            self.mapper.begin()
        self.fleet.adopt()

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        step = ticks(seconds)

        def run(_argument: object) -> None:
            self._clock.call_at(self._clock.now + step, run)
            if self.alive:
                work()

        self._clock.call_at(self._clock.now + step, run)

    def _sample(self) -> None:
        self.record(SwitchTotals(switches=self.fleet.totals()))
        if self._page is not None:
            self._page_text = self._metrics()

    # --- as a driver --------------------------------------------------------------------------------------------------

    def last_audit(self) -> Audit:
        """Return the findings of an audit made now, which costs nothing."""
        return self.fleet.audit()

    @property
    def now(self) -> float:
        """Virtual time in seconds."""
        return self._clock.seconds

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._advance(seconds)

    async def until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Let virtual time pass until a condition is true, at most `seconds`; checks it ever more rarely."""
        deadline = self.now + seconds
        pause = max(self.fabric.spec.link.delay, 1e-6)
        while not ready() and (left := deadline - self.now) > 0:
            self._advance(min(pause, left))
            pause = min(2 * pause, _LONGEST_STEP_S)

    async def poll(self, seconds: float) -> None:
        """Do nothing: the state of every switch and host is known."""

    def forget(self, links: Collection[str] | None) -> None:
        """Mark these cables, or all, as unverified; they are probed again."""
        self.fleet.forget_links(links)
        self.fleet.probe_pending()

    async def audit(self, only: str | None = None) -> Audit:
        """Compare the entries of all switches, or of one, with the intended ones."""
        return self.fleet.audit(only)

    async def repair(self, only: str | None) -> dict[str, dict[str, int]]:
        """Correct the entries that an audit finds wrong; numbers of entries by switch."""
        return self.fleet.repair(only)

    # --- views --------------------------------------------------------------------------------------------------------

    def metrics_url(self) -> str:
        """Return the URL of the Prometheus page, current until the last telemetry, served until the controller ends."""
        self._page_text = self._metrics()
        if self._page is None:
            from mrclab.controller.metrics.server import MetricsServer  # noqa: PLC0415 - few runs serve one

            self._page = MetricsServer(0, lambda: self._page_text)
        return self._page.url

    def _metrics(self) -> str:
        status, counters = run_to_end(self.core.status()), run_to_end(self.fleet.counters())
        hosts = {name: host.call("stats") or {} for name, host in self.nodes.running.items()}
        return metrics.page(status, counters, run_to_end(self.core.ev_counters())["evs"], hosts)

    # --- hosts --------------------------------------------------------------------------------------------------------

    def on_host_record(self, host: str, record: dict[str, Any]) -> None:
        """Hand a record of a host to Clustermapper."""
        if self.mapper is not None and self.alive:
            self.mapper.event(host, record)

    def _follow_mapper(self) -> None:
        assert self.mapper is not None
        self.core.denials.apply_decisions(self.mapper, self.now)
