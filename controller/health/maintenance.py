"""Taking a switch out of service without losing a packet, and seeing whether a job may start.

Drain: EVs over the switch are DENIED at every host first; when no data crosses it any more it may be rebooted; undrain
waits until it forwards again before it lets traffic back. Hosts are told, not asked: MRC moves its packets by itself.
"""

import asyncio
import time
from typing import Any

from mrclab.controller.errors import SwitchError
from mrclab.controller.fleet import Fleet
from mrclab.controller.health import checks
from mrclab.controller.health.checks import DRAIN, MaintenanceError, PreCheck, switch_name
from mrclab.controller.health.elements import Element
from mrclab.controller.history import ControllerHistory
from mrclab.controller.nodes import NodeConfigKeeper
from mrclab.controller.provisioning.prober import CableProber
from mrclab.events.controller import DrainIncomplete, SwitchDrained, SwitchUndrained
from mrclab.rpc.errors import RpcError
from mrclab.topo.model import Fabric

POLL = 0.1  # seconds between looks at the counters of a switch that is being drained
QUIET_POLLS = 3  # looks in a row without traffic before a switch counts as drained


class Maintenance:
    """Drain, undrain and pre-check over the parts of a controller."""

    def __init__(
        self, fabric: Fabric, fleet: Fleet, cables: CableProber, nodes: NodeConfigKeeper, history: ControllerHistory
    ) -> None:
        self._fabric = fabric
        self._fleet = fleet
        self._cables = cables
        self._nodes = nodes
        self._history = history

    async def drain(self, what: Element, reason: str, timeout: float) -> dict[str, Any]:
        """Deny a switch and wait up to `timeout` seconds until it carries nothing of any QP."""
        name = switch_name(what)
        begun = time.monotonic()
        await self._nodes.deny(what, reason, DRAIN)
        drained, unread = await self._until_quiet(name, begun + timeout)
        seconds = round(time.monotonic() - begun, 3)
        self._history.record((SwitchDrained if drained else DrainIncomplete)(switch=name, seconds=seconds))
        why = self._fleet.silences.get(name, unread)
        return {"switch": name, "drained": drained, "seconds": seconds, "unread": why, "untold": self._nodes.silences}

    async def undrain(self, what: Element, timeout: float) -> dict[str, Any]:
        """Let traffic back over a drained switch once it holds its entries and its cables are verified."""
        name = switch_name(what)
        if not any(d.element == what and d.source == DRAIN for d in self._nodes.denylist.denials):
            raise MaintenanceError(f"{name} is not drained; drain it first")
        begun = time.monotonic()
        while not self._in_service(name):
            if time.monotonic() - begun > timeout:
                lacks = f"lacks {'all its cables' if self._fleet.is_ready(name) else 'its table entries'}"
                why = self._fleet.silences.get(name) or lacks
                raise MaintenanceError(f"{name} stays drained: after {timeout:g} s it still {why}")
            await asyncio.sleep(POLL)
        await self._nodes.undeny(what, DRAIN)
        seconds = round(time.monotonic() - begun, 3)
        self._history.record(SwitchUndrained(switch=name, seconds=seconds))
        return {"switch": name, "undrained": True, "seconds": seconds}

    async def precheck(self, timeout: float) -> dict[str, Any]:
        """Check every switch, entry, cable, agent and NIC port, and say whether a job may start."""
        self._cables.forget(set(self._fleet.workers))
        self._cables.wake()
        deadline = time.monotonic() + timeout
        while not self._cables.all_verified and time.monotonic() < deadline and not self._in_vain():
            await asyncio.sleep(POLL)
        audited = await self._fleet.audit()
        agents = await asyncio.gather(*(self._agent_check(host.name) for host in self._fabric.hosts))
        denied = [str(denial.element) for denial in self._nodes.denylist.denials]
        silences = self._fleet.silences
        bad = [*self._fleet.not_ready, *(f"{name} {why}" for name, why in silences.items())]
        unread = [f"{name} was not read: it {why}" for name, why in audited.unread.items()]
        return checks.answer(
            len(self._fleet.ready) - len(silences), bad, [*audited.wrong, *unread], len(self._fabric.links),
            self._cables.problems(), agents, denied,
        )  # fmt: skip

    async def _agent_check(self, host: str) -> PreCheck:
        try:
            hello = await self._nodes.agents[host].ask("hello")
        except RpcError as error:
            return PreCheck(host, False, error.message)
        every = hello.get("ports", [])
        return checks.ports(
            host, [(str(port.get("interface", port.get("port"))), bool(port.get("up"))) for port in every]
        )

    async def _until_quiet(self, name: str, deadline: float) -> tuple[bool, str]:
        """Return True if nothing of any QP crossed the switch in several looks in a row, before `deadline`; and why the
        last look failed, where it did.
        """
        quiet, last, unread = 0, -1, ""
        while time.monotonic() < deadline:
            try:
                now, unread = await self._fleet.traffic(name), ""
            except SwitchError as error:
                if self._fleet.is_gone(name):
                    return True, ""  # it carries nothing
                now, unread = -1, str(error).removeprefix(f"{name}: ")
            quiet = quiet + 1 if now == last and not unread else 0
            if quiet >= QUIET_POLLS:
                return True, ""
            last = now
            await asyncio.sleep(POLL)
        return False, unread

    def _in_vain(self) -> bool:
        """Return True if each cable still to be verified ends at a process that does not answer."""
        silent = {*self._fleet.silences, *self._nodes.silences}
        pending = self._cables.book.pending()
        return all(silent & {end.node, self._fabric.switch(end.node).port(end.port).peer.node} for end in pending)

    def _in_service(self, name: str) -> bool:
        pending = {end.node for end in self._cables.book.pending()}
        return self._fleet.is_ready(name) and name not in pending and name not in self._fleet.silences
