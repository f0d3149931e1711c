"""Taking a switch out of service without losing a packet, and seeing whether a job may start.

Drain: EVs over the switch are DENIED at every host first; when no data crosses it any more it may be rebooted; undrain
waits until it forwards again before it lets traffic back. Hosts are notified, and MRC moves its packets itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mrclab.controller.driver import Driver, SwitchState
from mrclab.controller.errors import ControllerError, SwitchError
from mrclab.controller.health.denials import Denials
from mrclab.controller.health.elements import Element
from mrclab.events.controller import DrainIncomplete, SwitchDrained, SwitchUndrained

POLL = 0.1  # seconds between counter readings of a switch that is being drained, times the fabric's `time_scale`
QUIET_POLLS = 3  # readings in a row without traffic before a switch counts as drained
DRAIN = "drain"
"""Source of the denials that a drain makes."""


class MaintenanceError(ControllerError):
    """An operation that this element does not allow."""


class PreCheck(NamedTuple):
    """One line of a pre-check."""

    name: str
    ok: bool
    detail: str


def switch_name(what: Element) -> str:
    """Name of a switch; MaintenanceError for anything else."""
    if what.kind not in {"t0", "t1"}:
        raise MaintenanceError(f"{what} is not a switch; only a T0 or T1 can be drained, deny anything else")
    return what.name


def check(name: str, bad: Sequence[str], good: str, prefix: str = "") -> PreCheck:
    """Return a passed check if `bad` is empty, else a failed one that names the first three."""
    if not bad:
        return PreCheck(name, True, good)
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return PreCheck(name, False, prefix + "; ".join(bad[:3]) + more)


def nic_ports(host: str, found: Sequence[tuple[str, bool]] | str) -> PreCheck:
    """Check a host's NIC ports: name and state of each, or the reason why it cannot be queried."""
    if isinstance(found, str):
        return PreCheck(host, False, found)
    return check(host, [name for name, up in found if not up], f"{len(found)} NIC ports up", "ports down: ")


class Maintenance:
    """Drain, undrain and pre-check of one controller."""

    def __init__(self, driver: Driver, denials: Denials) -> None:
        self._driver = driver
        self._denials = denials

    async def drain(self, what: Element, reason: str, timeout: float) -> dict[str, Any]:
        """Deny a switch and wait up to `timeout` seconds until it carries nothing of any QP."""
        driver, name = self._driver, switch_name(what)
        begun = driver.now
        self._denials.deny(what, reason, DRAIN)
        await driver.nodes.notified()
        drained, unread = await self._until_quiet(name, begun + timeout)
        seconds = round(driver.now - begun, driver.decimals)
        driver.record((SwitchDrained if drained else DrainIncomplete)(switch=name, seconds=seconds))
        why = driver.fleet.view(name).unresponsive or unread
        return {
            "switch": name,
            "drained": drained,
            "seconds": seconds,
            "unread": why,
            "unnotified": driver.nodes.unresponsive,
        }

    async def undrain(self, what: Element, timeout: float) -> dict[str, Any]:
        """Let traffic back over a drained switch once it holds its entries and its cables are verified."""
        driver, name = self._driver, switch_name(what)
        if DRAIN not in self._denials.sources(what):
            raise MaintenanceError(f"{name} is not drained; drain it first")
        begun = driver.now
        while not self._in_service(name):
            left = begun + timeout - driver.now
            if left <= 0:
                view = driver.fleet.view(name)
                lacks = f"lacks {'all its cables' if view.is_ready else 'its table entries'}"
                why = view.unresponsive or lacks
                raise MaintenanceError(f"{name} stays drained: after {timeout:g} s it still {why}")
            await driver.sleep(min(POLL * driver.fabric.spec.time_scale, left))
        self._denials.undeny(what, DRAIN)
        await driver.nodes.notified()
        seconds = round(driver.now - begun, driver.decimals)
        driver.record(SwitchUndrained(switch=name, seconds=seconds))
        return {"switch": name, "undrained": True, "seconds": seconds, "denied_by": self._denials.sources(what)}

    async def precheck(self, timeout: float) -> dict[str, Any]:
        """Check every switch, entry, cable, host and NIC port; `ok` of the result: a job may start."""
        driver = self._driver
        driver.forget(None)
        await driver.until(lambda: driver.cable_states.settled or self._cannot_verify(), timeout)
        audited = await driver.audit()
        hosts = await driver.nodes.ports()
        unready = driver.fleet.unready()
        bad = [f"{name} {view.unresponsive}" if view.is_ready else name for name, view in unready.items()]
        unread = [f"{name} was not read: it {why}" for name, why in audited.unread.items()]
        denied = [denial["element"] for denial in self._denials.listed]
        fabric, problems = driver.fabric, driver.cable_states.problems()
        checks = [
            check("switches", bad, f"{len(fabric.switches) - len(unready)} ready", "not ready: "),
            check("entries", [*audited.wrong, *unread], "all as they should be"),
            check("cables", problems, f"{len(fabric.links)} verified both ways"),
            *(nic_ports(name, found) for name, found in hosts.items()),
            check("denylist", denied, "empty", "denied: "),
        ]
        return {"ok": all(each.ok for each in checks), "checks": [each._asdict() for each in checks]}

    async def _until_quiet(self, name: str, deadline: float) -> tuple[bool, str]:
        """Return True if no QP's packet crossed the switch in several samples in a row, before `deadline`; and why the
        last look failed, where it did.
        """
        driver, quiet, last = self._driver, 0, -1
        while True:
            now, unread = -1, ""
            try:
                now = await driver.fleet.traffic(name)
            except SwitchError as error:
                unread = str(error).removeprefix(f"{name}: ")
            if driver.fleet.view(name).state is SwitchState.CONNECTING:
                return True, ""  # it carries nothing
            quiet = quiet + 1 if now == last and not unread else 0
            if quiet >= QUIET_POLLS:
                return True, ""
            last = now
            left = deadline - driver.now
            if left <= 0:
                return False, unread
            await driver.sleep(min(POLL * driver.fabric.spec.time_scale, left))

    def _cannot_verify(self) -> bool:
        """Return True if each cable still to be verified ends at a process that does not respond."""
        driver = self._driver
        switches = {name for name, view in driver.fleet.unready().items() if view.unresponsive}
        silent = {*driver.nodes.unresponsive, *switches}
        pending = driver.cable_states.pending()
        return all(silent & {end.node, driver.fabric.switch(end.node).port(end.port).peer.node} for end in pending)

    def _in_service(self, name: str) -> bool:
        states = self._driver.cable_states
        verified = set(states.ends_of(name)).isdisjoint(states.pending())
        return verified and name not in self._driver.fleet.unready()
