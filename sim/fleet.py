"""The controller's view of all simulated switches: entries, cables, counters.

Cables are verified by link-check frames, as on the wire; entries are written at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

from mrclab.controller.driver import Audit, SwitchState, SwitchView
from mrclab.controller.errors import SwitchError
from mrclab.controller.provisioning import counters
from mrclab.controller.provisioning.cables import CableStates
from mrclab.events.event import Event
from mrclab.events.switches import LinkFailed, SwitchDown, SwitchReady
from mrclab.sim.clock import ticks
from mrclab.sim.fabric import SimFabric
from mrclab.sim.frame import SimFrame, of_bytes
from mrclab.sim.switches.sharedbuffer import PausablePort
from mrclab.sim.switches.switch import SimSwitch
from mrclab.topo.model import Fabric, Switch

PROVISION_S: Final = 0.2
"""From the start of an empty switch until it holds its entries; times the fabric's `time_scale`."""

PROBE_AGAIN_S: Final = 0.25
"""Interval of link checks of a cable that is not verified; times the fabric's `time_scale`."""

MAX_SHOWN: Final = 20_000
"""Cables of the largest fabric of which every port's counters are shown."""

STOPPED: Final = "is stopped"
_CPU_CLASS: Final = counters.CLASSES.index("cpu")


class SimFleet:
    """The switches of `fabric`. `record` keeps events, `changed` is called when a link check has arrived.

    While `on` is False there is no controller: nothing is written, nothing is received.
    """

    def __init__(self, fabric: SimFabric, record: Callable[[Event], object], changed: Callable[[], None]) -> None:
        self.on = True
        self.model = fabric.model
        self.switches = fabric.switches
        self.states = CableStates(fabric.model, known=True)
        self._clock = fabric.clock
        self._record = record
        self._on_change = changed
        self._probing = False
        self._due: dict[SimSwitch, int] = {}  # when switches that have started are provisioned
        self._fabric = fabric
        self._last_totals: dict[str, tuple[counters.Reading, dict[str, Any]]] = {}  # by switch, with what they are of
        fabric.packet_in = self._packet_in

    @property
    def is_large(self) -> bool:
        """True if ports are too many to be shown one by one."""
        return len(self.model.links) > MAX_SHOWN

    # --- life ---------------------------------------------------------------------------------------------------------

    def view(self, name: str) -> SwitchView:
        """State of one switch; one never used is ready."""
        switch = self.switches.known(name)
        return SwitchView(SwitchState.READY) if switch is None else _view(switch)

    def unready(self) -> dict[str, SwitchView]:
        """Switches without their intended entries, and frozen ones."""
        return {s.model.name: _view(s) for s in self.switches.made if not s.alive or s.frozen or s.is_empty}

    @property
    def _ready(self) -> list[SimSwitch]:
        """Simulated switches that are ready."""
        return [s for s in self.switches.made if s.alive and not s.frozen and not s.is_empty]

    def begin(self) -> None:
        """Count all cables as verified: they were made from the model."""
        self._on_change()

    def lost(self, name: str) -> None:
        """Note that a switch was killed: its cables are unverified."""
        self.states.forget(self.states.ends_of(name))
        self._record(SwitchDown(switch=name, reason="it is gone"))

    def provision(self, switch: SimSwitch) -> None:
        """Provision an empty switch that has started, or continues."""
        due = self._due[switch] = self._clock.now + ticks(PROVISION_S * self.model.spec.time_scale)
        self._clock.call_at(due, self._provision_if_due, switch)

    def _provision_if_due(self, switch: SimSwitch) -> None:
        if self._due[switch] <= self._clock.now:  # else it has started once more
            self._provision(switch)

    def adopt(self) -> None:
        """Adopt the switches after a controller restart; provision empty ones."""
        for switch in self.switches.made:
            self._provision(switch)
        self.probe_pending()

    def _provision(self, switch: SimSwitch) -> None:
        name = switch.model.name
        if switch.alive and not switch.frozen and self.on and switch.is_empty:
            switch.provision()
            self._record(SwitchReady(switch=name))
            self.probe_pending()

    # --- cables -------------------------------------------------------------------------------------------------------

    def forget_links(self, links: Collection[str] | None) -> None:
        """Mark these cables as unverified, or all; of a large fabric only those that were touched.

        A simulated cable that was not touched is as the model says.
        """
        if links is None and not self.is_large:
            self.states.forget()
        else:
            named = self._touched if links is None else links
            self.states.forget([end for link in named for end in self.states.ends_of_link(link)])

    @property
    def _touched(self) -> list[str]:
        """Cables that were touched, or whose end is a node that was."""
        found = []
        for name in self._fabric.touched:
            if "/" in name:
                found.append(name)
            elif self.model.has_switch(name) or self.model.has_host(name):
                found += [port.link for port in self.model.node(name).ports]
        return found

    def probe_pending(self) -> None:
        """Send a link check out of every port whose cable is not verified, and again while any is not."""
        if not self._probing:
            self._probe(None)

    def _probe(self, _argument: object) -> None:
        pending = [end for end in self.states.pending() if self.on and not self.switches[end.node].is_empty]
        self._probing = bool(pending)
        for end in pending:
            self.switches[end.node].send_out(of_bytes(self.states.probe(end)), end.port)
        if pending:
            self._clock.call_at(self._clock.now + ticks(PROBE_AGAIN_S * self.model.spec.time_scale), self._probe)

    def _packet_in(self, switch: SimSwitch, frame: SimFrame, port: int) -> None:
        arrival = self.states.arrived(switch.model.name, port, frame.to_bytes()) if self.on else None
        if arrival is None:
            return
        if not arrival.right:
            reason = "; ".join(self.states.problems_of(arrival.link))
            self._record(LinkFailed(link=arrival.link, state="wrong", reason=reason))
        self._on_change()

    # --- entries ------------------------------------------------------------------------------------------------------

    def audit(self, only: str | None = None) -> Audit:
        """Compare the routes of all switches, or of one, with the intended ones; frozen switches are not read."""
        found: list[str] = []
        for switch in self._ready:
            if switch.wrong_routes() and only in {None, switch.model.name}:
                found += _wrong_entries(self.model, switch)
        unread = {name: view.not_ready for name, view in self.unready().items() if only in {None, name}}
        return Audit(found, unread)

    def repair(self, only: str | None) -> dict[str, dict[str, int]]:
        """Write wrong entries again; return the numbers of writes by switch."""
        done = {}
        for switch in self._ready:
            name, wrong = switch.model.name, switch.wrong_routes()
            if wrong and only in {None, name}:
                lacks = sum(not port for port in wrong.values())
                switch.provision()
                done[name] = {"inserted": lacks, "modified": len(wrong) - lacks, "deleted": 0}
        return done

    async def misroute(self, name: str, port: int, to: int) -> None:
        """Route the traffic of `port` out of `to`, or drop it with 0."""
        switch = self.switches[name]
        switch.route(switch.model.port(port).usid, switch.model.port(to).number if to else None)

    # --- counters -----------------------------------------------------------------------------------------------------

    def _shown(self) -> Iterator[tuple[Switch, SimSwitch | None]]:
        """Yield the ready switches, None for one that was never used; of a large fabric those in use."""
        used = {switch.model.name: switch for switch in self._ready}
        if self.is_large:
            yield from ((switch.model, switch) for switch in used.values())
            return
        silent = self.unready()
        yield from ((model, used.get(model.name)) for model in self.model.switches if model.name not in silent)

    def _readings(self) -> Iterator[tuple[Switch, counters.Reading]]:
        return ((model, {} if switch is None else reading(switch)) for model, switch in self._shown())

    @property
    def _ports_shown(self) -> list[int] | None:
        """Ports whose counters are shown: all of a small fabric; of a large one no port by itself."""
        return [] if self.is_large else None

    async def counters(self) -> dict[str, Any]:
        """Counters by ready switch."""
        return {model.name: counters.summary(model, read, self._ports_shown) for model, read in self._readings()}

    def totals(self) -> dict[str, Any]:
        """Counters in short by switch; computed again only where a counter changed."""
        found: dict[str, Any] = {}
        for model, read in self._readings():
            known = self._last_totals.get(model.name)
            if known is None or known[0] != read:
                known = self._last_totals[model.name] = read, counters.totals(model, read, self._ports_shown)
            found[model.name] = known[1]
        return found

    async def watch(self, ev: int, on: bool) -> None:
        """Count an EV at every switch from now on, also at those that come back; or no longer."""
        if on:
            self._fabric.watched.add(ev)
            for switch in self.switches.made:
                switch.watch([ev])
            return
        self._fabric.watched.remove(ev)
        for switch in self.switches.made:
            switch.evs.pop(ev, None)

    async def ev_counts(self, evs: Iterable[int]) -> dict[int, dict[str, dict[str, int]]]:
        """Packets and bytes sent with watched EVs, by ready switch; of a large fabric by those in use."""
        found: dict[int, dict[str, dict[str, int]]] = {ev: {} for ev in evs}
        for model, switch in self._shown() if found else ():
            for port in switch.used if switch else ():
                port.catch_up()
            for ev, cells in found.items():
                packets, size = switch.evs.get(ev, (0, 0)) if switch else (0, 0)
                cells[model.name] = {"packets": packets, "bytes": size}
        return found

    async def traffic(self, name: str) -> int:
        """Packets of QPs that a switch has sent so far; SwitchError where it is stopped."""
        switch = self.switches[name]
        if switch.frozen:
            raise SwitchError(name, STOPPED, "DEADLINE_EXCEEDED")
        return counters.traffic(switch.model, reading(switch), self.model.spec.trimming)


def _view(switch: SimSwitch) -> SwitchView:
    """State of a switch that was used."""
    if switch.is_empty:
        return SwitchView(SwitchState.PROVISIONING if switch.alive else SwitchState.CONNECTING)
    return SwitchView(SwitchState.READY, STOPPED if switch.frozen else "")


def _wrong_entries(fabric: Fabric, switch: SimSwitch) -> Iterator[str]:
    """Yield what is wrong with the routes of a switch, as an audit on the wire says it."""
    from mrclab.controller.provisioning import intent  # noqa: PLC0415 - few runs have a wrong entry
    from mrclab.controller.provisioning.reconcile import Change, UpdateKind, sentence  # noqa: PLC0415

    wrong = switch.wrong_routes()
    for port in switch.model.ports:
        if (to := wrong.get(port.usid)) is not None:
            found = intent.misdirected(switch.model, port.number, to) if to else None
            change = Change(UpdateKind.MODIFY if to else UpdateKind.INSERT, intent.usid_route(port), found)
            yield sentence(fabric, switch.model, change)


def reading(switch: SimSwitch) -> counters.Reading:
    """A switch's counters by name and index, (packets, bytes), as the P4 program numbers them."""
    found: counters.Reading = {("drops", reason): (count, 0) for reason, count in enumerate(switch.drops) if count}
    for number, received in switch.received().items():
        found["rx", number] = received
    queued = 0
    for port in switch.used:
        queued += port.queued()
        number = port.number
        found["trims", number] = port.trims, 0
        found["ecn_marks", number] = port.marks, 0
        if isinstance(port, PausablePort):
            found["pfc_xoffs", number] = port.xoffs, 0
            found["pfc_paused", number] = round(port.paused_seconds * 1e9), 0
            found["pfc_storms", number] = port.storms, 0
        for kind, sent in enumerate(port.sent()):
            if sent[0]:
                found["tx", number * len(counters.CLASSES) + kind] = sent
    found["queued", 0] = queued, 0
    cpu = counters.cpu_port(switch.model)
    found["rx", cpu] = switch.cpu_out, 0
    found["tx", cpu * len(counters.CLASSES) + _CPU_CLASS] = switch.cpu_in, 0
    return found
