"""Controller operations of virtual time: those of `mrclab.controller.api`, answered at once."""

from __future__ import annotations

from mrclab.controller.arguments import DEFAULT_TIMEOUT, OPERATOR, EvNumber, Seconds
from mrclab.controller.health import checks
from mrclab.controller.health.checks import PreCheck
from mrclab.controller.health.elements import Element
from mrclab.controller.operations import CommonOperations, Operation, Result, by_name
from mrclab.events.switches import RouteMisdirected
from mrclab.sim.clock import Clock
from mrclab.sim.controller import SimController
from mrclab.sim.nic import SimNic


class ControllerOperations(CommonOperations):
    """Serves one controller of virtual time."""

    def __init__(self, controller: SimController, clock: Clock) -> None:
        super().__init__(controller.model, lambda: controller.mapper)
        self._controller = controller
        self._fleet = controller.fleet
        self._clock = clock

    def hello(self) -> Result:
        """Say who serves here."""
        return {"node": "controller", "switches": list(self._fleet.switches), "hosts": list(self._controller.hosts)}

    def status(self, ask: Seconds = 0.0) -> Result:
        """Return progress of provisioning and verification, and denials; no request is needed for it."""
        return self._controller.status()

    def wait_verified(self, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Wait until all switches are ready and all cables verified; says what is missing when `timeout` runs out."""
        self._controller.wait(lambda: self._fleet.all_right, timeout)
        return self._fleet.outcome()

    def verify(self, timeout: Seconds = DEFAULT_TIMEOUT, links: list[str] | None = None) -> Result:
        """Probe cables again and audit all entries."""
        entries = self._fleet.audit()
        model = self._controller.model
        self._fleet.forget_links(None if links is None else {model.link(text).name for text in links})
        self._fleet.probe_pending()
        outcome = self.wait_verified(timeout)
        unread = self._unread()
        right = not (entries or unread)
        return {**outcome, "verified": outcome["verified"] and right, "entries": entries, "unread": unread}

    def audit(self, switch: str | None = None) -> Result:
        """Compare what switches, or one, hold with what they should; `unread` says whose entries could not be read."""
        name = None if switch is None else self._controller.model.switch(switch).name
        wrong = [text for text in self._fleet.audit() if name is None or text.startswith(f"{name} ")]
        return {"entries": wrong, "unread": {s: why for s, why in self._unread().items() if name in {None, s}}}

    def _unread(self) -> dict[str, str]:
        """Why the entries of a switch cannot be read, by switch, lacking the subject."""
        fleet = self._fleet
        return {
            name: "stands still" if fleet.is_silent(name) else f"is not ready but {fleet.state(name)}"
            for name in fleet.not_ready
        }

    def repair(self, switch: str | None = None) -> Result:
        """Write what an audit would complain about, on all switches or on one."""
        only = None if switch is None else self._controller.model.switch(switch).name
        return {"switches": self._fleet.repair(only)}

    def misroute(self, switch: str, port: int, to: int = 0) -> Result:
        """Make a switch hold a wrong route, or with `to` 0 none, where one leads out of `port`; `repair` mends it."""
        entry = self._fleet.misroute(switch, port, to)
        self._controller.record(RouteMisdirected(switch=switch, port=port, to=to, entry=entry))
        return {"entry": entry}

    def counters(self) -> Result:
        """Counters of all ready switches, since they were started."""
        return {"t": self._clock.seconds, "switches": self._fleet.counters()}

    def deny(self, what: str, reason: str = "", source: str = OPERATOR) -> Result:
        """Keep traffic off a switch, cable, plane or path."""
        found = self._element(what)
        return self._answer(found, self._controller.deny(found, reason, source))

    def undeny(self, what: str, source: str | None = None) -> Result:
        """Lift denials, of one source or of all."""
        found = self._element(what)
        return self._answer(found, self._controller.undeny(found, source) > 0)

    def drain(self, switch: str, reason: str = "", timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Take a switch out of service: deny it, then wait until nothing of any QP crosses it."""
        return self._controller.drain(self._element(switch), reason, timeout)

    def undrain(self, switch: str, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Let traffic back over a drained switch as soon as it forwards again."""
        return self._controller.undrain(self._element(switch), timeout)

    def precheck(self, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Return True if a job may start: switches, entries, cables, hosts, NIC ports, denylist."""
        controller, fleet = self._controller, self._fleet
        fleet.forget_links(None)
        fleet.probe_pending()
        controller.wait(lambda: fleet.book.settled, timeout)
        denied = [str(denial.element) for denial in controller.denylist.denials]
        unread = [f"{name} was not read: it {why}" for name, why in self._unread().items()]
        return checks.answer(
            fleet.ready, fleet.not_ready, [*fleet.audit(), *unread], len(controller.model.links), fleet.problems,
            map(self._host, controller.configs), denied,
        )  # fmt: skip

    def _host(self, name: str) -> PreCheck:
        self._controller.waken(name)
        host = self._controller.hosts.get(name)
        if host is None:
            return PreCheck(name, False, "it has ended")
        assert isinstance(host.nic, SimNic)
        return checks.ports(name, [(port.config.name, port.up) for port in host.nic.ports])

    def watch_ev(self, ev: EvNumber) -> Result:
        """Count the packets of one EV (32 bits, as in the hosts' histories) at every switch from now on."""
        return {"ev": ev, "changed": self._fleet.watch(ev)}

    def unwatch_ev(self, ev: EvNumber) -> Result:
        """Count one EV no longer."""
        self._fleet.unwatch(ev)
        return {"ev": ev}

    def ev_counters(self) -> Result:
        """Packets and bytes of every watched EV, by switch."""
        counts = self._fleet.ev_counts()
        return {"t": self._clock.seconds, "evs": {str(ev): by_switch for ev, by_switch in counts.items()}}

    def metrics(self) -> Result:
        """Return the URL of the Prometheus page; it is served from now on until the controller ends."""
        return {"url": self._controller.metrics_url()}

    def _answer(self, found: Element, changed: bool) -> Result:
        version = self._controller.denylist.version
        return {"element": str(found), "kind": found.kind, "changed": changed, "version": version, "untold": {}}


def operations(controller: SimController, clock: Clock) -> dict[str, Operation]:
    """Return name → operation."""
    return by_name(ControllerOperations(controller, clock), waits=False)
