"""Self-test of every kind of fault in a small real lab: its effect is verified, and it leaves no state behind.

Each kind's `self_test` runs the whole way, from the entry of a scenario over its time line to kernel, switches,
controller and agents, and back. Frames bypass the transports.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.faults.base import FAULTS, FaultBase
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.run.wire.wireworld import WireWorld, wire_world
from mrclab.rpc import peers
from mrclab.topo import srv6
from mrclab.topo.cables.testports import END, ETH_P_IPV6, across, carriers, expect, ports, srv6_packet
from mrclab.topo.errors import TopoError
from mrclab.topo.input import sentences
from mrclab.topo.linux import kernel
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

T = TypeVar("T")

FABRIC = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate_pps": 2000, "delay": 0}}
_ENDS = ("h1-p1", "t0-p1-1-1")  # of the cable that frames cross, from the lower to the upper
_OTHER_ENDS = ("h1-p2", "t0-p2-1-1")
_TIMEOUT = 15.0  # seconds for the controller to find that all is well again
_POLL = 0.02


class FaultProbe:
    """One fault on its time line in a lab of two planes with two T0s, two T1s and two hosts each.

    Frames cross `probe.CABLE`, the first cable of host 1.
    """

    def __init__(self, lab: WireWorld, fault: FaultBase) -> None:
        self.lab = lab
        self.fault = fault
        self.line = TimeLine(lab, [fault])

    @classmethod
    def of(cls, lab: WireWorld, kind: str, fields: dict[str, Any]) -> "FaultProbe":
        """Return a probe of a kind with these fields."""
        entry = {"name": f"test-{kind}".replace("_", "-"), "kind": kind, "at": 0, **fields}
        return cls(lab, FAULTS[kind].model_validate(entry, context={"fabric": lab.fabric}))

    @property
    def links(self) -> tuple[str, ...]:
        """Cables of the fault."""
        return self.fault.links(self.lab.fabric)

    @property
    def counters(self) -> dict[str, Any]:
        """Counters that the fault recorded when it was cleared last."""
        counted = self.records("fault.counters")
        expect(counted, "it counted nothing")
        return counted[-1]

    def inject(self) -> None:
        """Begin the fault."""
        self.line.advance(0.0, {})

    def clear(self) -> None:
        """End the fault."""
        self.line.clear_all()

    def step(self) -> None:
        """Wait until the fault's next due time, and let it do one step, however late."""
        time.sleep(max(0.0, self.line.next_due() - time.monotonic()))
        self.line.advance(0.0, {})

    def wait_until_over(self) -> None:
        """Let a fault that ends without being cleared go on until it has ended."""
        began = time.monotonic()
        while self.line.pending:
            seconds = time.monotonic() - began
            expect(seconds < _TIMEOUT, f"it was not over within {_TIMEOUT:.0f} s")
            self.line.advance(seconds, {})
            wait = min(self.line.next_due(), time.monotonic() + _POLL) - time.monotonic()
            time.sleep(max(0.0, wait))

    def another(self, kind: str, **fields: Any) -> "FaultProbe":
        """Return a probe of another fault in the same lab."""
        return FaultProbe.of(self.lab, kind, fields)

    def expect(self, holds: object, detail: str) -> None:
        """Raise TopoError with `detail` where something does not hold."""
        expect(holds, detail)

    @staticmethod
    def wait_for(look: Callable[[], T], enough: Callable[[T], bool]) -> T:
        """Poll `look` until its result is enough or time is over; return the last result."""
        deadline = time.monotonic() + _TIMEOUT
        while not enough(seen := look()) and time.monotonic() < deadline:
            time.sleep(_POLL)
        return seen

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return the history's records of this fault and its parts, oldest first."""
        path = self.lab.run_dir / "history" / "lab.jsonl"
        return [r.data for r in history.load(path).of(kind) if r["fault"].startswith(self.fault.name)]

    # --- frames -----------------------------------------------------------------------------------------------------

    def cross(self) -> tuple[list[int], list[int]]:
        """Send forty frames up and forty down CABLE; return the numbers of those that arrive, in order of arrival."""
        with ports(self.lab.emulation, *_ENDS) as (lower, upper):
            return across(lower, upper), across(upper, lower)

    def cross_late(self) -> tuple[list[int], float]:
        """Send forty frames up CABLE; clear the fault; return those that arrived before, and after how many seconds."""
        with ports(self.lab.emulation, *_ENDS) as (lower, upper):
            began = time.monotonic()
            arrived = across(lower, upper)
            seconds = time.monotonic() - began
            self.clear()  # the relay lets out what it still holds
            upper.drain()
            return arrived, seconds

    def cross_swapped(self) -> bool:
        """Return True if all frames into CABLE leave by OTHER, and the reverse."""
        with ports(self.lab.emulation, *_ENDS, *_OTHER_ENDS) as (one, other, third, fourth):
            every = list(range(40))
            return across(one, fourth) == across(third, other) == every

    def cross_one(self, payload: bytes) -> bytes:
        """Send one frame up CABLE; return the frame received."""
        with ports(self.lab.emulation, *_ENDS) as (lower, upper):
            lower.send(payload, END)
            (arrived,) = upper.receive()
            return arrived

    def cross_uplinks(self, uplinks: tuple[int, ...]) -> list[bool]:
        """Send one packet by each uplink of plane 1 up CABLE; return True for each that arrives."""
        packets = [srv6_packet(srv6.ev(1, uplink, srv6.ev_tag(uplink))) for uplink in uplinks]
        with ports(self.lab.emulation, *_ENDS, ethertype=ETH_P_IPV6) as (lower, upper):
            lower.send(*packets, END)
            arrived = upper.receive()
            return [packet in arrived for packet in packets]

    def ports_of(self, links: tuple[str, ...]) -> list[str]:
        """Return the interfaces at both ends of cables, sorted."""
        return sorted(end.interface for name in links for end in self.lab.fabric.link(name).ends)

    def without_carrier(self) -> list[str]:
        """Return the interfaces without carrier, sorted."""
        return sorted(interface for interface, up in carriers(self.lab.emulation).items() if not up)

    def forwarded(self, source: str, destination: str, plane: int, uplink: int) -> list[int]:
        """Return the packets that each cable of a path has forwarded so far."""
        path = self.lab.fabric.path_links(source, destination, plane, uplink)
        return [max(self.lab.emulation.cables.forwarded(link)) for link in path]

    # --- processes --------------------------------------------------------------------------------------------------

    def processes(self) -> dict[str, int]:
        """Return the process id of each node that runs."""
        return dict(self.lab.emulation.processes())

    def process_state(self, pid: int) -> str:
        """Return the letter of proc(5): R, S, T for stopped."""
        return peers.stat_fields(pid)[0]

    def is_alive(self, node: str) -> bool:
        """Return True while the node's process exists."""
        return self.lab.emulation.is_alive(node)

    def call(self, node: str, op: str, **arguments: Any) -> dict[str, Any]:
        """Send a request to a host or the controller; return its response."""
        return self.lab.call(node, op, **arguments)


@dataclass(frozen=True)
class SelfTestVerdict:
    """Verdict of the test of one kind of fault; `detail` has the reason where it failed."""

    name: str
    passed: bool
    detail: str = ""


def kinds(target: str | None = None, only: Collection[str] = ()) -> Iterator[SelfTestVerdict]:
    """Test every kind, or some, on a target; one verdict each, the last on remains of the lab. Needs root.

    LabError or TopoError where no lab can be brought up.
    """
    base = Path(f"/run/mrclab-faults-{os.getpid()}")
    with wire_world(Fabric(load(FABRIC)), lambda *_: None, target=target, run_dir=base / "lab") as lab:
        for kind in FAULTS.names:
            if (not only or kind in only) and "wire" in FAULTS[kind].worlds:
                yield _verdict(lab, kind)
    left = [str(path) for path in (base, *kernel.NETNS_DIR.glob(f"{base.name}*")) if path.exists()]
    detail = f"still there: {', '.join(left)}" if left else ""
    yield SelfTestVerdict("nothing is left of the lab", not left, detail)


def _verdict(lab: WireWorld, kind: str) -> SelfTestVerdict:
    if FAULTS[kind].self_test is FaultBase.self_test:
        return SelfTestVerdict(kind, passed=False, detail="it has no self_test")
    try:
        _test(lab, kind)
    except (LabError, TopoError, OSError) as error:
        return SelfTestVerdict(kind, passed=False, detail=str(error))
    except ValidationError as error:
        return SelfTestVerdict(kind, passed=False, detail=f"its example: {sentences.first(error)}")
    return SelfTestVerdict(kind, passed=True)


def _test(lab: WireWorld, kind: str) -> None:
    probe = FaultProbe.of(lab, kind, FAULTS[kind].example)
    before = _footprint(lab)
    try:
        probe.fault.self_test(probe)
        left = probe.wait_for(lambda: _footprint(lab), lambda now: now == before)
        expect(left == before, f"it left {left} where {before} was")
        outcome = lab.call("controller", "wait_verified", timeout=_TIMEOUT)
        expect(outcome["verified"], f"the fabric is not whole again: {outcome['problems']} {outcome['not_ready']}")
    finally:
        probe.line.clear_all()


def _footprint(lab: WireWorld) -> dict[str, Any]:
    """Return the state that a fault must restore."""
    return {
        "processes": sorted(lab.emulation.processes()),
        "counters": sorted(kernel.nft_counters(lab.emulation.cables.descriptor)),
        "down": sorted(interface for interface, up in carriers(lab.emulation).items() if not up),
    }
