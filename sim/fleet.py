"""All simulated switches as their controller sees them: who holds its entries, what cables lead where, what they count.

Cables are verified by link-check frames, as on the wire; entries are written at once where nothing is in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from mrclab.controller.provisioning import counters
from mrclab.controller.provisioning.cables import CableBook
from mrclab.sim.clock import ticks
from mrclab.sim.fabric import SimFabric
from mrclab.sim.frame import SimFrame, of_bytes
from mrclab.sim.switch import SimSwitch

PROVISION_S = 0.2
"""From the start of an empty switch until it holds its entries."""

PROBE_AGAIN_S = 0.25
"""Between two link checks of a cable that is not verified."""

_CPU_CLASS = counters.CLASSES.index("cpu")


class SimFleet:
    """The switches of `fabric`. `record` keeps events, `verified` hears when all cables are for the first time.

    While `on` is False there is no controller: nothing is written, nothing is heard.
    """

    def __init__(self, fabric: SimFabric, record: Callable[..., object], verified: Callable[[], None]) -> None:
        self.on = True
        self.model = fabric.model
        self.switches = fabric.switches
        self.book = CableBook(fabric.model)
        self.verified_at: float | None = None
        self._clock = fabric.clock
        self._record = record
        self._tell_verified = verified
        self._probing = False
        self.provisioned = dict.fromkeys(fabric.switches, True)
        for switch in fabric.switches.values():
            switch.packet_in = self._packet_in

    # --- life ---------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> dict[str, SimSwitch]:
        """Switches that hold what they should, and answer."""
        return {
            name: switch
            for name, switch in self.switches.items()
            if switch.alive and not switch.frozen and self.provisioned[name]
        }

    @property
    def not_ready(self) -> list[str]:
        """Names of the others."""
        ready = self.ready
        return [name for name in self.switches if name not in ready]

    @property
    def all_right(self) -> bool:
        """Whether every switch is ready, and every cable verified."""
        return not self.book.pending() and not self.not_ready

    def state(self, name: str) -> str:
        """How far one switch is."""
        if self.provisioned[name]:
            return "ready"
        return "provisioning" if self.switches[name].alive else "connecting"

    def lost(self, name: str) -> None:
        """A switch is dead."""
        self.provisioned[name] = False
        self.forget({name})
        self._record("switch.down", switch=name, reason="it is gone")

    def came(self, switch: SimSwitch) -> None:
        """A switch is back, empty."""
        self._clock.at(self._clock.now + ticks(PROVISION_S), self._provision, switch)

    def adopt(self) -> None:
        """A controller is there again: it takes the switches as they are, and provisions what is empty."""
        for switch in self.switches.values():
            self._provision(switch)
        self.probe_pending()

    def _provision(self, switch: SimSwitch) -> None:
        name = switch.model.name
        if switch.alive and self.on and not self.provisioned[name]:
            switch.provision()
            self.provisioned[name] = True
            self._record("switch.ready", switch=name)
            self.probe_pending()

    # --- cables -------------------------------------------------------------------------------------------------------

    def forget(self, nodes: Collection[str]) -> None:
        """Take the cables of these switches as unknown."""
        ends = self.book.ends
        self.book.forget(end for end in ends if end.node in nodes or self._far(end.node, end.port) in nodes)

    def forget_links(self, links: Collection[str] | None) -> None:
        """Take these cables as unknown, or all."""
        model = self.model
        ends = self.book.ends
        self.book.forget(end for end in ends if links is None or model.switch(end.node).port(end.port).link in links)

    def _far(self, node: str, port: int) -> str:
        return self.model.switch(node).port(port).peer.node

    def probe_pending(self) -> None:
        """Send a link check out of every port whose cable is not verified, and again while any is not."""
        if not self._probing:
            self._probe(None)

    def _probe(self, _about: object) -> None:
        pending = [end for end in self.book.pending() if self.on and self.provisioned[end.node]]
        self._probing = bool(pending)
        for end in pending:
            self.switches[end.node].send_out(of_bytes(self.book.probe(end)), end.port)
        if pending:
            self._clock.at(self._clock.now + ticks(PROBE_AGAIN_S), self._probe)

    def _packet_in(self, switch: SimSwitch, frame: SimFrame, port: int) -> None:
        sighting = self.book.arrived(switch.model.name, port, frame.to_bytes()) if self.on else None
        if sighting is None:
            return
        if not sighting.right:
            reason = "; ".join(self.book.complaints(sighting.link))
            self._record("link.failed", link=sighting.link, state="wrong", reason=reason)
        if self.verified_at is None and self.all_right:
            self.verified_at = self._clock.seconds
            self._record("verified", seconds=self.verified_at, links=len(self.model.links))
            self._tell_verified()

    def outcome(self) -> dict[str, Any]:
        """What a verification says."""
        failed = [*self.book.links("wrong"), *self.book.links("silent")]
        return {
            "verified": self.all_right,
            "links": len(self.model.links),
            "seconds": self.verified_at,
            "failed": failed,
            "problems": [text for link in failed for text in self.book.complaints(link)],
            "not_ready": self.not_ready,
        }

    # --- entries ------------------------------------------------------------------------------------------------------

    def audit(self) -> list[str]:
        """One sentence for each route that a switch lacks, or holds wrongly."""
        found = []
        for name, switch in self.ready.items():
            held = switch.routes()
            for port in switch.model.ports:
                at = held.get(port.usid)
                wanted = _route(switch, port.usid, port.number)
                if at is None:
                    found.append(f"{name} usid_fib lacks {wanted}")
                elif at != port.number:
                    found.append(f"{name} usid_fib should hold {wanted}, holds {_route(switch, port.usid, at)}")
        return found

    def repair(self, only: str | None) -> dict[str, dict[str, int]]:
        """Write what the audit complains about; by switch, what was done."""
        done = {}
        for name, switch in self.ready.items():
            if only not in {None, name}:
                continue
            held = switch.routes()
            lacks = sum(port.usid not in held for port in switch.model.ports)
            wrong = sum(held.get(port.usid, port.number) != port.number for port in switch.model.ports)
            if lacks or wrong:
                switch.provision()
                done[name] = {"inserted": lacks, "modified": wrong, "deleted": 0}
        return done

    def misroute(self, name: str, port: int, to: int) -> str:
        """Have what should leave by `port` leave by `to`, or with 0 not at all; says so in words."""
        switch = self.switches[self.model.switch(name).name]
        usid = switch.model.port(port).usid
        if not to:
            switch.route(usid, None)
            return f"{name} no longer holds {_route(switch, usid, port)}"
        switch.route(usid, switch.model.port(to).number)
        return f"{name} now holds {_route(switch, usid, to)}"

    # --- counters -----------------------------------------------------------------------------------------------------

    def counters(self) -> dict[str, Any]:
        """Counters by switch."""
        return {name: counters.summary(switch.model, reading(switch)) for name, switch in self.ready.items()}

    def totals(self) -> dict[str, Any]:
        """Counters in short by switch."""
        return {name: counters.totals(switch.model, reading(switch)) for name, switch in self.ready.items()}

    def traffic(self, name: str) -> int:
        """Packets of QPs that a switch has sent so far."""
        switch = self.switches[name]
        return counters.traffic(switch.model, reading(switch), self.model.spec.trimming)


def _route(switch: SimSwitch, usid: int, port: int) -> str:
    return f"uSID {usid:#06x} by port {port} to {switch.model.port(port).peer.node}"


def reading(switch: SimSwitch) -> counters.Reading:
    """A switch's counters by name and index, (packets, bytes), as the P4 program numbers them."""
    found: counters.Reading = {("drops", reason): (count, 0) for reason, count in enumerate(switch.drops) if count}
    for port in switch.ports:
        port.settle()
        number = port.number
        found["rx", number] = switch.rx_packets[number], switch.rx_bytes[number]
        found["trims", number] = port.trims, 0
        found["ecn_marks", number] = port.marks, 0
        for kind, packets in enumerate(port.tx_packets):
            if packets:
                found["tx", number * len(counters.CLASSES) + kind] = packets, port.tx_bytes[kind]
    cpu = counters.cpu_port(switch.model)
    found["rx", cpu] = switch.cpu_out, 0
    found["tx", cpu * len(counters.CLASSES) + _CPU_CLASS] = switch.cpu_in, 0
    return found
