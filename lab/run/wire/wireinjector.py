"""Fault injector on this machine: cables by their rules, nodes by their processes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mrclab.events.processes import HelperLate
from mrclab.topo.cables import cablefaults, cables, helper
from mrclab.topo.cables.cablefaults import Direction, Match
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.linux import channels
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.switches.targets import Launch

if TYPE_CHECKING:
    from mrclab.lab.run.wire.wireworld import WireWorld

_CONTROLLER = "controller"


class _WireInjected:
    def __init__(self, made: cables.Cables, faults: Sequence[cables.AppliedFault]) -> None:
        self._cables, self._faults = made, faults

    def clear(self) -> tuple[int, int]:
        count = self._cables.clear(*self._faults)
        return count.seen, count.hit


class _WireImpaired:
    def __init__(self, relayed: helper.Relayed, world: "WireWorld") -> None:
        self._relayed, self._world = relayed, world
        world.expect_alive(relayed.name)  # another of this name may have ended

    def clear(self) -> tuple[int, int, int]:
        self._world.excuse(self._relayed.name)
        counts = self._relayed.clear()
        _record_late(self._world, self._relayed.name, self._relayed.late)
        return sum(c.received for c in counts), sum(c.lost for c in counts), sum(c.sent for c in counts)


class _Sending:
    def __init__(self, sender: helper.FrameSender, world: "WireWorld") -> None:
        self._sender, self._world = sender, world
        world.expect_alive(sender.name)

    def clear(self) -> tuple[int, int]:
        self._world.excuse(self._sender.name)
        done = self._sender.clear()
        _record_late(self._world, self._sender.name, self._sender.late)
        return done.sent, done.refused


def _record_late(world: "WireWorld", name: str, late: tuple[float, float]) -> None:
    world.record(HelperLate(process=name, late=late[0], at=late[1]))


class WireFaultInjector:
    """Fault injector of the wire, on an emulation; a `mrclab.lab.faults.action.FaultInjector`."""

    def __init__(self, emulation: Emulation, world: "WireWorld") -> None:
        self._emulation = emulation
        self._world = world

    def hold_down(self, owner: str, *links: str) -> None:
        """Take cables down."""
        self._emulation.cables.hold_down(owner, *links)

    def release(self, owner: str) -> None:
        """Bring up cables that no other fault holds down."""
        self._emulation.cables.release(owner)

    def inject(
        self, places: Sequence[tuple[str, cablefaults.Action]], *, match: Match, direction: Direction
    ) -> _WireInjected:
        """Apply kernel rules to all cables at the same moment."""
        made = self._emulation.cables
        return _WireInjected(made, made.inject_all(places, match=match, direction=direction))

    def impair(self, link: str, impairment: Impairment, *, direction: Direction, seed: int) -> _WireImpaired:
        """Put a relay process into the cable."""
        relayed = helper.impair(self._emulation, link, impairment, direction=direction, seed=seed)
        return _WireImpaired(relayed, self._world)

    def swap(self, one: str, other: str) -> None:
        """Swap two cables' far ends."""
        self._emulation.cables.swap(one, other)

    def background(
        self, source: str, destination: str, path: tuple[int, int], rate_pps: float, size: int, name: str
    ) -> _Sending:
        """Start a sending process in the host's namespace."""
        sender = helper.send(self._emulation, source, destination, path, rate_pps, size, name)
        return _Sending(sender, self._world)

    def kill(self, node: str) -> None:
        """SIGKILL."""
        self._world.excuse(node)
        self._emulation.kill(node)
        self._forget(node)

    def terminate(self, node: str) -> None:
        """SIGTERM."""
        self._world.excuse(node)
        self._emulation.terminate(node)
        self._forget(node)

    def restart(self, node: str) -> None:
        """Start its process again."""
        if self._is_switch(node):
            self._emulation.restart(node)
        else:
            self._world.launch(node)
        self._world.expect_alive(node)

    def freeze(self, node: str) -> None:
        """SIGSTOP."""
        self._emulation.freeze(node)

    def thaw(self, node: str) -> None:
        """SIGCONT."""
        self._emulation.thaw(node)

    def is_alive(self, node: str) -> bool:
        """Return True if its process runs."""
        return self._emulation.is_alive(node)

    def kill_programs(self, host: str) -> int:
        """SIGKILL all processes that run on a host besides its agent."""
        return self._emulation.kill_programs(host)

    def cut_control(self, switch: str) -> channels.Cut:
        """Cut the P4Runtime channel of a switch."""
        lab = self._emulation
        path = Launch(lab.fabric.switch(switch), lab.fabric.spec, lab.run_dir).socket
        return channels.cut(lab.processes().get(_CONTROLLER), path)

    def _is_switch(self, node: str) -> bool:
        return self._emulation.fabric.has_switch(node)

    def _forget(self, node: str) -> None:
        if not self._is_switch(node):
            self._world.forget(node)
