"""The controller's operations on its Unix socket, one JSON line per request (package `rpc`)."""

import time

from mrclab.controller.app import Controller
from mrclab.controller.arguments import DEFAULT_TIMEOUT, OPERATOR, EvNumber, Seconds
from mrclab.controller.health.elements import Element
from mrclab.controller.operations import CommonOperations, Operation, Result, by_name
from mrclab.events.switches import RouteMisdirected


class ControllerApi(CommonOperations):
    """Serves one controller."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller.fabric, lambda: controller.mapper)
        self._controller = controller

    def hello(self) -> Result:
        """Say who serves here."""
        fleet = self._controller.fleet
        return {"node": "controller", "switches": list(fleet.workers), "hosts": list(self._controller.nodes.agents)}

    async def status(self, ask: Seconds = 0.0) -> Result:
        """Return progress of provisioning and verification, and denials; after requests to all, where `ask` gives them
        so many seconds to answer.
        """
        if ask:
            await self._controller.look(ask)
        return {**self._controller.status(), **self._controller.nodes.status()}

    async def wait_verified(self, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Wait until all switches are ready and all cables verified; says what is missing when `timeout` runs out."""
        return await self._controller.wait_verified(timeout)

    async def verify(self, timeout: Seconds = DEFAULT_TIMEOUT, links: list[str] | None = None) -> Result:
        """Probe cables again and audit all entries."""
        return await self._controller.verify(timeout, links)

    async def audit(self, switch: str | None = None) -> Result:
        """Compare what switches, or one, hold with what they should; `unread` says whose entries could not be read."""
        return (await self._controller.audit(switch)).as_json

    async def repair(self, switch: str | None = None) -> Result:
        """Write what an audit would complain about, on all switches or on one, which waits for no other."""
        done = await self._controller.fleet.repair(switch)
        if switch is None:
            await self._controller.audit()
        counts = {n: {"inserted": d.inserted, "modified": d.modified, "deleted": d.deleted} for n, d in done.items()}
        return {"switches": counts}

    async def misroute(self, switch: str, port: int, to: int = 0) -> Result:
        """Make a switch hold a wrong route, or with `to` 0 none, where one leads out of `port`; `repair` mends it."""
        done = await self._controller.fleet.misroute(switch, port, to)
        self._controller.history.record(RouteMisdirected(switch=switch, port=port, to=to, entry=done))
        return {"entry": done}

    async def counters(self) -> Result:
        """Counters of all ready switches, since their program was loaded."""
        return {"t": time.monotonic(), "switches": await self._controller.fleet.counters()}

    async def deny(self, what: str, reason: str = "", source: str = OPERATOR) -> Result:
        """Keep traffic off a switch, cable, plane or path; returns when every agent knows."""
        found = self._element(what)
        changed = await self._controller.nodes.deny(found, reason, source)
        return self._told(found, changed)

    async def undeny(self, what: str, source: str | None = None) -> Result:
        """Lift denials, of one source or of all."""
        found = self._element(what)
        count = await self._controller.nodes.undeny(found, source)
        return self._told(found, count > 0)

    async def drain(self, switch: str, reason: str = "", timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Take a switch out of service: deny it, then wait until nothing of any QP crosses it."""
        return await self._controller.maintenance.drain(self._element(switch), reason, timeout)

    async def undrain(self, switch: str, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Let traffic back over a drained switch as soon as it forwards again."""
        return await self._controller.maintenance.undrain(self._element(switch), timeout)

    async def precheck(self, timeout: Seconds = DEFAULT_TIMEOUT) -> Result:
        """Return True if a job may start: switches, entries, cables, agents, NIC ports, denylist."""
        return await self._controller.maintenance.precheck(timeout)

    async def watch_ev(self, ev: EvNumber) -> Result:
        """Count the packets of one EV (32 bits, as in the hosts' histories) at every switch from now on."""
        return {"ev": ev, "changed": await self._controller.ev_watch.watch(ev)}

    async def unwatch_ev(self, ev: EvNumber) -> Result:
        """Count one EV no longer."""
        await self._controller.ev_watch.unwatch(ev)
        return {"ev": ev}

    async def ev_counters(self) -> Result:
        """Packets and bytes of every watched EV, by switch."""
        counts = await self._controller.ev_watch.counts()
        return {"t": time.monotonic(), "evs": {str(ev): by_switch for ev, by_switch in counts.items()}}

    def _told(self, found: Element, changed: bool) -> Result:
        """Return the outcome of a denial; `untold` are hosts whose agents do not know of it, with the reason."""
        nodes = self._controller.nodes
        told = {"element": str(found), "kind": found.kind, "changed": changed, "version": nodes.version}
        return {**told, "untold": nodes.silences}


def operations(controller: Controller) -> dict[str, Operation]:
    """Return name → operation, for an rpc server."""
    return by_name(ControllerApi(controller), waits=True)
