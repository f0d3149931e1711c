"""The controller's core, the same in either world: its operations: status, checks, denials, drains.

It opens no socket and reads no clock: a `Driver` does. On the wire that is `mrclab.controller.wire.app`, over
P4Runtime and the agents' sockets; in virtual time `mrclab.sim.controller`, whose coroutines never suspend.
"""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mrclab.controller.driver import Audit, Driver, SwitchState
from mrclab.controller.errors import SwitchError, WatchError
from mrclab.controller.health.denials import Denials
from mrclab.controller.health.denylist import Denylist
from mrclab.controller.health.elements import Element, element
from mrclab.controller.health.maintenance import Maintenance
from mrclab.events.switches import RouteMisdirected
from mrclab.rpc.errors import RpcError

if TYPE_CHECKING:
    from mrclab.controller.health.mapper import Clustermapper

Result = dict[str, Any]
Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
EvNumber = Annotated[int, Field(ge=0, le=0xFFFF_FFFF)]
DEFAULT_TIMEOUT = 30.0  # seconds
OPERATOR = "operator"
"""Source of an operator's denials."""

MAX_WATCHED = 1024
"""Entries that the table `ev_watch` holds."""


class ControllerCore:
    """Operations of one controller: its public methods; their results are sent as JSON."""

    def __init__(
        self, driver: Driver, denylist: Denylist, mapper: "Clustermapper | None", sender_chooses: bool
    ) -> None:
        self._driver = driver
        self._fabric = driver.fabric
        self._mapper = mapper
        self._watched: dict[int, None] = {}  # EVs, in the order of the requests
        self.denials = Denials(driver, denylist, sender_chooses)
        self._maintenance = Maintenance(driver, self.denials)

    @property
    def all_verified(self) -> bool:
        """True if every switch is ready and answers, and every cable is verified."""
        return self._driver.cable_states.settled and not self._driver.fleet.unready()

    def hello(self) -> Result:
        """Identify this server."""
        fabric = self._fabric
        return {"node": "controller", "switches": list(fabric.switch_names), "hosts": list(fabric.host_names)}

    # --- status -------------------------------------------------------------------------------------------------------

    async def status(self, ask: Seconds = 0.0) -> Result:
        """Return progress of provisioning and verification, and denials.

        With `ask`, ping all switches and agents first, with a timeout of that many seconds.

        `entries_unread` are switches whose entries the last audit could not read, and those that do not respond now.
        """
        if ask:
            await self._driver.poll(ask)
        return self._status()

    async def wait_verified(self, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Wait until all switches are ready and all cables verified; after `timeout` report those that are not."""
        await self._driver.until(lambda: self.all_verified, timeout)
        return self._outcome()

    async def verify(self, timeout: Seconds = DEFAULT_TIMEOUT, links: list[str] | None = None) -> Result:
        """Probe all cables (or `links`) again, and compare every switch's entries with the intended ones."""
        chosen = None if links is None else {self._fabric.link(text).name for text in links}
        audited = await self._driver.audit()
        self._driver.forget(chosen)
        outcome = await self.wait_verified(timeout)
        right = not (audited.wrong or audited.unread)
        return {**outcome, "verified": outcome["verified"] and right, **_audit_result(audited)}

    async def precheck(self, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Return True if a job may start: switches, entries, cables, hosts, NIC ports, denylist."""
        return await self._maintenance.precheck(timeout)

    async def counters(self) -> Result:
        """Counters of all ready switches, since their program was loaded."""
        return {"t": self._driver.now, "switches": await self._driver.fleet.counters()}

    # --- table entries ------------------------------------------------------------------------------------------------

    async def audit(self, switch: str | None = None) -> Result:
        """Compare the entries of all switches, or one, with the intended ones; `unread`: switches that could not be
        read."""
        return _audit_result(await self._driver.audit(None if switch is None else self._fabric.switch(switch).name))

    async def repair(self, switch: str | None = None) -> Result:
        """Write the entries in which an audit finds differences, on all switches or on one, which waits for no
        other."""
        return {"switches": await self._driver.repair(None if switch is None else self._ready(switch))}

    async def misroute(self, switch: str, port: int, to: int = 0) -> Result:
        """Replace the route out of `port` by a wrong one, or remove it with `to` 0; `repair` corrects that."""
        from mrclab.controller.provisioning import intent  # noqa: PLC0415 - few runs have a wrong entry

        model = self._fabric.switch(self._ready(switch))
        await self._driver.fleet.misroute(model.name, port, to)
        route = intent.misdirected(model, port, to) if to else intent.usid_route(model.port(port))
        route_text = intent.describe(self._fabric, model, route)
        entry = f"{model.name} {'now' if to else 'no longer'} holds {route_text}"
        self._driver.record(RouteMisdirected(switch=switch, port=port, to=to, entry=entry))
        return {"entry": entry}

    async def watch_ev(self, ev: EvNumber) -> Result:
        """Count the packets of one EV (32 bits, as in the hosts' histories) at every switch from now on."""
        new = ev not in self._watched
        if new:
            if len(self._watched) >= MAX_WATCHED:
                raise WatchError(f"{MAX_WATCHED} EVs are watched already; unwatch one first")
            self._watched[ev] = None
            await self._driver.fleet.watch(ev, True)
        return {"ev": ev, "changed": new}

    async def unwatch_ev(self, ev: EvNumber) -> Result:
        """Count one EV no longer."""
        if ev not in self._watched:
            raise WatchError(f"EV {ev:#010x} is not watched")
        del self._watched[ev]
        await self._driver.fleet.watch(ev, False)
        return {"ev": ev}

    async def ev_counters(self) -> Result:
        """Packets and bytes of every watched EV, by switch."""
        counts = await self._driver.fleet.ev_counts(tuple(self._watched))
        return {"t": self._driver.now, "evs": {str(ev): by_switch for ev, by_switch in counts.items()}}

    # --- denials, maintenance, Clustermapper --------------------------------------------------------------------------

    async def deny(self, what: str, reason: str = "", source: str = OPERATOR) -> Result:
        """Keep traffic off a switch, cable, plane or path; return when every reachable host has applied it."""
        found = self._element(what)
        changed = self.denials.deny(found, reason, source)
        await self._driver.nodes.notified()
        return self.denials.outcome(found, changed)

    async def undeny(self, what: str, source: str | None = None) -> Result:
        """Lift denials, of one source or of all."""
        found = self._element(what)
        changed = self.denials.undeny(found, source) > 0
        await self._driver.nodes.notified()
        return self.denials.outcome(found, changed)

    async def drain(self, switch: str, reason: str = "", timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Take a switch out of service: deny it, then wait until nothing of any QP crosses it."""
        return await self._maintenance.drain(self._element(switch), reason, timeout)

    async def undrain(self, switch: str, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Let traffic back over a drained switch as soon as it forwards again."""
        return await self._maintenance.undrain(self._element(switch), timeout)

    def map(self) -> Result:
        """Health of every link by Clustermapper's probes, and the faulty elements."""
        return self._clustermapper().map()

    def forget(self) -> Result:
        """Clear Clustermapper's observations: after a repair, or between two experiments."""
        self._clustermapper().begin()
        return {}

    def _clustermapper(self) -> "Clustermapper":
        if self._mapper is None:
            raise RpcError(
                "ENOTSUP", "Clustermapper is off; give the scenario a mapper section, or write mrclab up --mapper"
            )
        return self._mapper

    def _element(self, text: str) -> Element:
        return element(self._fabric, text)

    def _ready(self, switch: str) -> str:
        """Name of a switch that can be written to; SwitchError where it is not ready."""
        name = self._fabric.switch(switch).name
        view = self._driver.fleet.view(name)
        if not view.is_ready:
            raise SwitchError(name, f"{view.not_ready}; wait for it", "UNAVAILABLE")
        return name

    # --- state --------------------------------------------------------------------------------------------------------

    def _status(self) -> Result:
        driver = self._driver
        unready = driver.fleet.unready()
        views = {name: driver.fleet.view(name) for name in self._fabric.switch_names}
        unresponsive = {name: view.unresponsive for name, view in unready.items() if view.unresponsive}
        audited = driver.last_audit()
        return {
            "state": self._state({view.state for view in views.values()}),
            "switches_ready": len(views) - len(unready),
            "switches": len(views),
            "links_verified": driver.cable_states.count_verified(unresponsive),
            "links": len(self._fabric.links),
            "message": self._message(),
            "wrong_entries": len(audited.wrong),
            "entries_unread": {**audited.unread, **unresponsive},
            "seconds": driver.verified_after,
            "by_switch": {
                name: {
                    "state": view.state.value,
                    "silent": bool(view.unresponsive),
                    "error": view.error or view.unresponsive,
                }
                for name, view in views.items()
            },
            "version": driver.nodes.version,
            "denied": self.denials.listed,
            "agents": driver.nodes.versions,
            "agents_silent": driver.nodes.unresponsive,
        }

    def _state(self, states: set[SwitchState]) -> str:
        if SwitchState.FAILED in states:
            return "failed"
        if states == {SwitchState.BACKUP}:
            return "backup"
        if states != {SwitchState.READY}:
            return "connecting" if SwitchState.CONNECTING in states else "provisioning"
        return "verified" if self.all_verified else "verifying"

    def _message(self) -> str:
        unready = self._driver.fleet.unready().values()
        states = self._driver.cable_states
        errors = [view.error for view in unready if view.error and not view.is_ready]
        wrong = [text for link in states.links("wrong") for text in states.problems_of(link)]
        return "; ".join([*errors, *wrong][:3])

    def _outcome(self) -> Result:
        driver, states = self._driver, self._driver.cable_states
        return {
            "verified": self.all_verified,
            "links": len(self._fabric.links),
            "seconds": driver.verified_after,
            "failed": [*states.links("wrong"), *states.links("silent")],
            "problems": states.problems(),
            "not_ready": list(driver.fleet.unready()),
        }


def _audit_result(audited: Audit) -> Result:
    return {"entries": audited.wrong, "unread": audited.unread}
