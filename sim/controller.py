"""The controller in virtual time: what it decides is the controller's own; switches are written and hosts told at once.

No P4Runtime, no process, no file: Clustermapper, denylist and node configs are the controller's very classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from mrclab.controller import metrics, nodefiles
from mrclab.controller.health.checks import DRAIN, MaintenanceError, switch_name
from mrclab.controller.health.denylist import DenyError, Denylist
from mrclab.controller.health.elements import Element
from mrclab.controller.health.mapper import MAPPER_REPORT, SOURCE, Clustermapper, reason
from mrclab.controller.health.policy import POLICIES
from mrclab.events.controller import (
    DrainIncomplete,
    ElementDenied,
    ElementUndenied,
    NodesWritten,
    SwitchDrained,
    SwitchUndrained,
)
from mrclab.events.event import Event
from mrclab.events.switches import SwitchTotals
from mrclab.hosts.agent.host import RunningHost
from mrclab.sim.clock import ticks
from mrclab.sim.fabric import SimFabric
from mrclab.sim.fleet import SimFleet
from mrclab.topo.nodeconfig import MapperSection, NodeConfig
from mrclab.topo.transport import TransportSpec

if TYPE_CHECKING:
    from mrclab.sim.servedpage import ServedPage

TELEMETRY_S: Final = 1.0
"""Between two records of all switches' counters."""

NO_TRANSPORTS: Final[Mapping[str, TransportSpec]] = {}
_POLL_S: Final = 0.1
_QUIET_POLLS: Final = 3
_LONGEST_STEP_S: Final = 0.01
_POLICY: Final[dict[bool | str, str]] = {True: "default", False: "observe", "all": "all"}


class SimController:
    """`write(event)` keeps an event; `let_pass(seconds)` runs the world for whoever has to wait."""

    def __init__(
        self,
        fabric: SimFabric,
        transport: TransportSpec,
        mapper: Mapping[str, Any] | None,
        write: Callable[[Event], object],
        let_pass: Callable[[float], None],
        of_hosts: Mapping[str, TransportSpec] = NO_TRANSPORTS,
    ) -> None:
        self._of_hosts = of_hosts
        self.model = fabric.model
        self._clock = fabric.clock
        self._transport = transport
        self._write = write
        self._let_pass = let_pass
        self.hosts: dict[str, RunningHost] = {}
        self.gone: Collection[str] = ()  # hosts that were ended
        self.waken: Callable[[str], object] = lambda _host: None  # has a host be there that nobody needed yet
        self.denylist = Denylist(self.model)
        self.fleet = SimFleet(fabric, self.record, self._verified)
        self._section: MapperSection | None = None
        self._agents = self.model.spec.hosts_per_t0
        self.mapper: Clustermapper | None = None
        if mapper is not None:
            cycle = float(mapper["cycle"])
            self._section = nodefiles.mapper(self.model, cycle, int(mapper.get("t1s") or 0))
            self._agents = min(int(mapper.get("agents") or self._agents), self._agents)
            policy = POLICIES[_POLICY[mapper.get("deny", True)]]
            self.mapper = Clustermapper(self.model, lambda: self.denylist.denials, self, cycle, policy)
        self._page: ServedPage | None = None
        self.configs: Mapping[str, NodeConfig] = {}
        self._publish()

    @property
    def alive(self) -> bool:
        """True if there is a controller."""
        return self.fleet.on

    def record(self, event: Event) -> None:
        """Keep an event of now, while there is a controller."""
        if self.alive:
            self._write(event)

    @property
    def probing(self) -> Iterator[str]:
        """Hosts that take part in Clustermapper."""
        if self._section is not None:
            down = self.model.spec.hosts_per_t0
            for group in range(self.model.spec.t0s):
                yield from (self.model.host_names[group * down + place] for place in range(self._agents))

    def begin(self) -> None:
        """Start what goes on by itself."""
        if not self.fleet.is_large:
            self._every(TELEMETRY_S * self.model.spec.pace, self._sample)
        if self.mapper is not None:
            self._every(self.mapper.interval, self._look)
        self.fleet.begin()

    def end(self) -> None:
        """It is gone; what is in the switches and the hosts stays."""
        self.fleet.on = False
        self.close()

    def close(self) -> None:
        """Serve nothing any more."""
        if self._page is not None:
            self._page.close()
            self._page = None

    def begin_again(self) -> None:
        """Another one is there, that takes up the denylist and the switches as they are."""
        self.fleet.on = True
        if self.mapper is not None:
            self.mapper.begin()
        self.fleet.adopt()

    def wait(self, ready: Callable[[], bool], timeout: float, step: float = 0.0) -> bool:
        """Let time pass until something holds, looking every `step` seconds; False where `timeout` was not enough."""
        deadline = self._clock.seconds + timeout
        pause = step or max(self.model.spec.link.delay, 1e-6)
        while not ready():
            left = deadline - self._clock.seconds
            if left <= 0:
                return False
            self._let_pass(min(pause, left))
            pause = step or min(2 * pause, _LONGEST_STEP_S)
        return True

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        step = ticks(seconds)

        def run(_about: object) -> None:
            self._clock.at(self._clock.now + step, run)
            if self.alive:
                work()

        self._clock.at(self._clock.now + step, run)

    def _verified(self) -> None:
        if self.mapper is not None:
            self.mapper.begin()

    def _sample(self) -> None:
        self.record(SwitchTotals(switches=self.fleet.totals()))
        if self._page is not None:
            self._page.text = self._metrics()

    # --- what it tells ------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return progress of provisioning and verification, and denials."""
        fleet = self.fleet
        return {
            "state": "verified" if fleet.all_right else "verifying",
            "switches_ready": fleet.ready,
            "switches": len(fleet.switches),
            "links_verified": fleet.book.verified,
            "links": len(self.model.links),
            "message": "",
            "wrong_entries": len(fleet.audit()),
            "entries_unread": {name: "stands still" for name in fleet.not_ready if fleet.is_silent(name)},
            "seconds": fleet.verified_at,
            "by_switch": {
                name: {"state": fleet.state(name), "silent": fleet.is_silent(name), "error": ""}
                for name in fleet.switches
            },
            "version": self.denylist.version,
            "denied": [
                {"element": str(d.element), "kind": d.element.kind, "reason": d.reason, "source": d.source}
                for d in self.denylist.denials
            ],
            "agents_silent": {},
            "agents": {name: 0 if name in self.gone else self.denylist.version for name in self.configs},
        }

    def metrics_url(self) -> str:
        """Return the URL of the Prometheus page, current until the last telemetry, served until the controller ends."""
        if self._page is None:
            from mrclab.sim.servedpage import ServedPage  # noqa: PLC0415 - asyncio, which a run does without

            self._page = ServedPage()
        self._page.text = self._metrics()
        return self._page.url

    def _metrics(self) -> str:
        page = metrics.MetricsPage()
        metrics.add_states(page, self.status())
        metrics.add_switches(page, self.fleet.counters())
        metrics.add_evs(page, self.fleet.ev_counts())
        metrics.add_agents(page, {name: host.call("stats") or {} for name, host in self.hosts.items()})
        return page.text()

    # --- hosts --------------------------------------------------------------------------------------------------------

    def subscribe(self, host: str, record: dict[str, Any]) -> None:
        """A host wrote something down."""
        if self.mapper is not None and self.alive and record["kind"] == MAPPER_REPORT:
            self.mapper.event(host, record)

    def _publish(self) -> None:
        """Make the hosts' configs anew, and tell the hosts."""
        version = self.denylist.version
        denied = self.denylist.by_host()
        given = self._section, self._transport, self._agents, self._of_hosts
        self.configs = nodefiles.Configs(self.model, version, denied, *given)
        self.record(NodesWritten(hosts=len(self.configs), version=version))
        for name, host in self.hosts.items():
            self._tell(host, self.configs[name])

    @staticmethod
    def _tell(host: RunningHost, config: NodeConfig) -> None:
        host.update(lambda: config)

    def deny(self, what: Element, why: str, source: str) -> bool:
        """Deny `what`; False if `source` denied it before. DenyError where hosts do not choose their paths."""
        if self._transport.kind != "mrc":
            raise DenyError(f"{what} cannot be denied: RoCE's paths are the switches' choice; cut cables, or run MRC")
        changed = self.denylist.deny(what, why, source)
        if changed:
            self.record(ElementDenied(element=str(what), reason=why, source=source))
            self._publish()
        return changed

    def undeny(self, what: Element, source: str | None) -> int:
        """Lift denials of `what`, of one source or of all; how many there were."""
        count = self.denylist.undeny(what, source)
        if count:
            self.record(ElementUndenied(element=str(what), source=source or "any"))
            self._publish()
        return count

    def _look(self) -> None:
        assert self.mapper is not None
        decision = self.mapper.look(self._clock.seconds)
        for verdict in decision.deny:
            try:
                self.deny(verdict.element, reason(verdict), SOURCE)
            except DenyError as error:
                self.mapper.refused(verdict, error)
        for lifted in decision.undeny:
            self.undeny(lifted, SOURCE)

    # --- maintenance --------------------------------------------------------------------------------------------------

    def drain(self, what: Element, why: str, timeout: float) -> dict[str, Any]:
        """Deny a switch and wait until it carries nothing of any QP."""
        name = switch_name(what)
        begun = self._clock.seconds
        self.deny(what, why, DRAIN)
        quiet, last = 0, -1

        def is_quiet() -> bool:
            nonlocal quiet, last
            now = self.fleet.traffic(name)
            quiet, last = (quiet + 1 if now == last else 0), now
            return quiet >= _QUIET_POLLS or not self.fleet.switches[name].alive

        drained = self.wait(is_quiet, timeout, _POLL_S)
        seconds = round(self._clock.seconds - begun, 9)
        self.record((SwitchDrained if drained else DrainIncomplete)(switch=name, seconds=seconds))
        why = "stands still" if self.fleet.is_silent(name) else ""
        return {"switch": name, "drained": drained, "seconds": seconds, "unread": why, "untold": {}}

    def undrain(self, what: Element, timeout: float) -> dict[str, Any]:
        """Let traffic back over a drained switch once it holds its entries and its cables are verified."""
        name = switch_name(what)
        if not any(d.element == what and d.source == DRAIN for d in self.denylist.denials):
            raise MaintenanceError(f"{name} is not drained; drain it first")
        begun = self._clock.seconds
        if not self.wait(lambda: self._in_service(name), timeout, _POLL_S):
            lacks = "all its cables" if self.fleet.is_ready(name) else "its table entries"
            raise MaintenanceError(f"{name} stays drained: after {timeout:g} s it still lacks {lacks}")
        self.undeny(what, DRAIN)
        seconds = round(self._clock.seconds - begun, 9)
        self.record(SwitchUndrained(switch=name, seconds=seconds))
        return {"switch": name, "undrained": True, "seconds": seconds}

    def _in_service(self, name: str) -> bool:
        return self.fleet.is_ready(name) and all(end.node != name for end in self.fleet.book.pending())
