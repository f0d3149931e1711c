"""Fault injector of virtual time: carrier and frames of cables, background traffic. Nodes are a world's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from mrclab.sim.clock import SECOND
from mrclab.sim.frame import of_bytes
from mrclab.sim.links.faults import FrameFault, HalfLinkDetour, injected
from mrclab.topo.cables.background import NUMBER_AT, packet
from mrclab.topo.cables.cablefaults import Action, Direction, Match
from mrclab.topo.cables.impairment import Impairer, Impairment
from mrclab.topo.errors import TopoError

if TYPE_CHECKING:
    from mrclab.sim.fabric import SimFabric
    from mrclab.sim.frame import SimFrame
    from mrclab.sim.links.cable import Cable, HalfLink

_SIDES: Final = {"both": (0, 1), "up": (0,), "down": (1,)}
_NUMBER_BYTES: Final = 4


class _FromElsewhere:
    """Has the T0 check the source of each frame, which it takes for its host's own otherwise."""

    def on_frame(self, frame: SimFrame, _half_link: HalfLink) -> SimFrame:
        """Return the frame as bytes: these are checked."""
        return of_bytes(frame.to_bytes())


_FROM_ELSEWHERE: Final = _FromElsewhere()


class _Injected:
    def __init__(self, places: list[tuple[HalfLink, FrameFault]]) -> None:
        self._places = places

    def clear(self) -> tuple[int, int]:
        """Remove the faults; return packets seen, and hit."""
        places, self._places = self._places, []
        for half_link, fault in places:
            half_link.faults = tuple(other for other in half_link.faults if other is not fault)
        return sum(fault.seen for _, fault in places), sum(fault.hit for _, fault in places)


class _Impaired:
    def __init__(self, places: list[tuple[HalfLink, HalfLinkDetour]]) -> None:
        self._places = places
        self.detours = [detour for _, detour in places]

    def clear(self) -> tuple[int, int, int]:
        """Remove the detours; return frames received, lost and sent.

        Frames that are still held leave in their time, may be overtaken, and count as sent.
        """
        places, self._places = self._places, []
        for half_link, detour in places:
            if half_link.detour is detour:
                half_link.detour = None
        counts = [detour.impairer.counts for _, detour in places]
        lost = sum(count.lost for count in counts)
        received = sum(count.received for count in counts)
        return received, lost, received - lost + sum(count.duplicated for count in counts)


class BackgroundSender:
    """Background traffic from a NIC port, at a steady rate, until it is cleared."""

    def __init__(self, fabric: SimFabric, cable: Cable, frame: bytes, rate_pps: float) -> None:
        self._clock = fabric.clock
        self._cable = cable
        self._frame = bytearray(frame)
        self._interval = max(1, round(SECOND / rate_pps))
        self._on = True
        self._sent = self._refused = 0
        self._clock.call_at(self._clock.now, self._send)

    def _send(self, _argument: object) -> None:
        if not self._on:
            return
        self._clock.call_at(self._clock.now + self._interval, self._send)
        number = (self._sent & 0xFFFF_FFFF).to_bytes(_NUMBER_BYTES, "big")
        self._frame[NUMBER_AT : NUMBER_AT + _NUMBER_BYTES] = number
        if self._cable.up:
            self._sent += 1
            self._cable.half_links[0].enter(of_bytes(bytes(self._frame)), self._clock.now)
        else:
            self._refused += 1

    def clear(self) -> tuple[int, int]:
        """Stop; return packets sent, and those refused for lack of carrier."""
        self._on = False
        return self._sent, self._refused


class SimFaultInjector:
    """Injects faults into a simulated fabric. Cables are named as in `Fabric.link`."""

    def __init__(self, fabric: SimFabric, seed: int) -> None:
        self._fabric = fabric
        self._seed = seed
        self._down_by: dict[int, list[str]] = {}  # cable → owners that hold it down
        self._count = 0

    def _touch(self, link: str) -> Cable:
        name = self._fabric.model.link(link).name
        self._fabric.touched[name] = None
        return self._fabric.cable(name)

    def kill_programs(self, host: str) -> NoReturn:
        """Refuse: no programs run in virtual time."""
        raise TopoError(f"{host} runs no programs in virtual time; kill them on the wire")

    def cut_control(self, switch: str) -> NoReturn:
        """Refuse: there is no control channel in virtual time."""
        raise TopoError(f"{switch} has no control channel in virtual time; cut it on the wire")

    # --- carrier ----------------------------------------------------------------------------------------------------

    def hold_down(self, owner: str, *links: str) -> None:
        """Take the carrier from both ends of cables for as long as `owner` holds them."""
        for link in links:
            cable = self._touch(link)
            owners = self._down_by.setdefault(cable.index, [])
            if owner not in owners:
                owners.append(owner)
            cable.set_carrier(False)

    def release(self, owner: str) -> None:
        """Give it back, except on cables that another owner holds."""
        for index, owners in list(self._down_by.items()):
            if owner in owners:
                owners.remove(owner)
                if not owners:
                    del self._down_by[index]
                    self._fabric.cable_at(index).set_carrier(True)

    # --- packets ----------------------------------------------------------------------------------------------------

    def inject(self, places: Sequence[tuple[str, Action]], *, match: Match, direction: Direction) -> _Injected:
        """Apply actions to packets that match, on all these cables, from now on."""
        made = []
        for link, action in places:
            cable = self._touch(link)
            for side in _SIDES[direction]:
                self._count += 1
                seed = f"{self._seed}/kernel/{self._count}"
                half_link, fault = cable.half_links[side], injected(self._fabric.clock, match, action, seed)
                half_link.faults = (*half_link.faults, fault)
                made.append((half_link, fault))
        return _Injected(made)

    def impair(self, link: str, impairment: Impairment, *, direction: Direction, seed: int) -> _Impaired:
        """Delay or reorder the frames of a cable."""
        cable, made = self._touch(link), []
        for number, side in enumerate(_SIDES[direction]):
            detour = HalfLinkDetour(self._fabric.clock, Impairer(impairment, f"{seed}/{number}"))
            cable.half_links[side].detour = detour
            made.append((cable.half_links[side], detour))
        return _Impaired(made)

    def swap(self, one: str, other: str) -> None:
        """Swap the far ends of two cables; a second call restores them."""
        first, second = self._touch(one), self._touch(other)
        for half_link, twin in zip(first.half_links, second.half_links, strict=True):
            here, there = half_link.end, twin.end
            half_link.attach(*there)
            twin.attach(*here)
            for moved in (half_link, twin):
                self._fabric.forget_pause(moved)
        for name, cable in ((one, first), (other, second)):
            cable.swapped = not cable.swapped
            up = cable.half_links[0]
            up.faults = tuple(fault for fault in up.faults if fault is not _FROM_ELSEWHERE)
            if cable.swapped and self._fabric.model.link(name).kind == "nic":
                up.faults = (*up.faults, _FROM_ELSEWHERE)

    def background(
        self, source: str, destination: str, path: tuple[int, int], rate_pps: float, size: int, name: str
    ) -> BackgroundSender:
        """Send packets of `size` bytes from host to host along one path (plane, uplink)."""
        model = self._fabric.model
        frame = packet(model, source, destination, path, size)
        return BackgroundSender(
            self._fabric, self._fabric.cable(model.host(source).port(path[0]).link), frame, rate_pps
        )
