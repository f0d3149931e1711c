"""Proves every kind of fault that a scenario may name, in a small real lab: it does what it says and leaves nothing.

`mrclab.topo.cables.selftest` proves what the kernel has to offer; here the whole way is walked, from the
model of a scenario's entry over its time line to switches, controller and agents, and back.
Frames are sent past the transports.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.faults.base import FaultBase
from mrclab.lab.faults.models import Fault
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.run.wire.session import LabSession, lab_session
from mrclab.topo import srv6
from mrclab.topo.cables import selftest as back_ends
from mrclab.topo.cables.selftest import SelfTestVerdict
from mrclab.topo.cables.testports import END, ETH_P_IPV6, across, carriers, expect, ports, process_state, srv6_packet
from mrclab.topo.errors import TopoError
from mrclab.topo.linux import kernel
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

FABRIC = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate_pps": 2000, "delay": 0}}
_CABLE, _OTHER, _UPLINK = "h1-p1/t0-p1-1", "h1-p2/t0-p2-1", "t0-p1-1/t1-p1-2"
_ENDS = ("h1-p1", "t0-p1-1-1")  # of _CABLE, from the lower to the upper
_LONG = 200  # bytes; leaves the end mark alone
_SWITCH = "t1-p1-2"
_TIMEOUT = 15.0  # seconds for the controller to find that all is well again
_POLL = 0.02
_ALL = list(range(40))
_ADAPTER: TypeAdapter[FaultBase] = TypeAdapter(Fault)


class FaultProbe:
    """One fault on its time line in the lab of the self-test."""

    def __init__(self, lab: LabSession, kind: str, fields: dict[str, Any]) -> None:
        self.lab = lab
        self.emulation = lab.emulation
        self.fault = _ADAPTER.validate_python(
            {"name": f"test-{kind}".replace("_", "-"), "kind": kind, "at": 0, **fields}, context={"fabric": lab.fabric}
        )
        self.line = TimeLine(lab, [self.fault])

    def strike(self) -> None:
        """Let it begin."""
        self.line.advance(0.0, {})

    def until_over(self, timeout: float = _TIMEOUT) -> None:
        """Let a fault that ends by itself go on until it has."""
        began = time.monotonic()
        while self.line.pending:
            seconds = time.monotonic() - began
            expect(seconds < timeout, f"it was not over within {timeout:.0f} s")
            self.line.advance(seconds, {})
            wait = min(self.line.next_due(), time.monotonic() + _POLL) - time.monotonic()
            time.sleep(max(0.0, wait))

    def heal(self) -> None:
        """End it."""
        self.line.heal_all()

    def records(self, kind: str) -> list[dict[str, Any]]:
        """What the history says of this fault and its parts, the oldest first."""
        path = self.lab.run_dir / "history" / "lab.jsonl"
        return [r.data for r in history.load(path).of(kind) if r["fault"].startswith(self.fault.name)]

    @property
    def counters(self) -> dict[str, Any]:
        """What the fault counted until it was healed the last time."""
        counted = self.records("fault.counters")
        expect(counted, "it counted nothing")
        return counted[-1]

    def pid(self, process: str) -> int:
        """Of a process that runs."""
        return self.emulation.processes()[process]

    def status(self) -> dict[str, Any]:
        """The controller's."""
        return self.lab.call("controller", "status")


Check = Callable[[FaultProbe], None]
_CHECKS: dict[str, tuple[dict[str, Any], Check]] = {}  # kind → fields of the entry, what has to be seen


def _check(kind: str, **fields: Any) -> Callable[[Check], Check]:
    """Register a function as the check of a kind with these fields; its fault has not struck yet."""

    def register(check: Check) -> Check:
        _CHECKS[kind] = fields, check
        return check

    return register


# --- carrier --------------------------------------------------------------------------------------------------------


def _cuts(probe: FaultProbe) -> None:
    """Exactly the ports of the fault's cables lose carrier, and all have it again."""
    fabric = probe.lab.fabric
    dead = {end.interface for name in probe.fault.links(fabric) for end in fabric.link(name).ends}
    probe.strike()
    found = {interface for interface, up in carriers(probe.emulation).items() if not up}
    probe.heal()
    expect(found == dead, f"without carrier are {sorted(found)}, not {sorted(dead)}")
    expect(all(carriers(probe.emulation).values()), "carrier does not come back")


_CUTS: dict[str, dict[str, Any]] = {
    "link_down": {"link": _CABLE},
    "transceiver": {"links": [_UPLINK, _OTHER]},
    "nic_port_down": {"port": "h1-p2"},
    "nic_down": {"host": "h2"},
    "plane_down": {"plane": 2},
}
for _kind, _fields in _CUTS.items():
    _check(_kind, **_fields)(_cuts)


@_check("flap", link=_CABLE, period=0.1, duty=0.4, count=3)
def _flap(probe: FaultProbe) -> None:
    probe.strike()
    expect(not carriers(probe.emulation)["h1-p1"], "carrier stays")
    probe.until_over()
    edges = [record["up"] for record in probe.records("fault.edge")]
    expect(edges == [False, True] * 3, f"carrier went and came as {edges}")
    expect(all(carriers(probe.emulation).values()), "carrier does not come back")


# --- packets --------------------------------------------------------------------------------------------------------


def _loses(wanted: Callable[[list[int]], bool], back: Callable[[list[int]], bool] = _ALL.__eq__) -> Check:
    """What arrives of forty frames upwards and of forty downwards, and whether it is counted exactly."""

    def check(probe: FaultProbe) -> None:
        with ports(probe.emulation, *_ENDS) as (lower, upper):
            probe.strike()
            up, down = across(lower, upper), across(upper, lower)
            probe.heal()
            expect(wanted(up), f"of forty frames upwards these arrived: {up}")
            expect(back(down), f"of forty frames downwards these arrived: {down}")
            lost = 80 - len(up) - len(down)
            expect(probe.counters["dropped"] == lost, f"{lost} frames were lost, {probe.counters} were counted")
            expect(across(lower, upper) == across(upper, lower) == _ALL, "frames are lost after the fault was healed")

    return check


def _some(got: list[int]) -> bool:
    return 4 < len(got) < 36


_UP: dict[str, Any] = {"link": _CABLE, "direction": "up", "min_length": _LONG}
_check("silent_drop", **_UP)(_loses(lambda got: not got))
_check("lose_packets", packets=[1, 7, 40], **_UP)(_loses(lambda got: got == [n for n in _ALL if n not in {0, 6, 39}]))
_check("rate_limit", rate_pps=1, burst=5, **_UP)(_loses(lambda got: got[:5] == _ALL[:5] and len(got) < 40))
_check("host_loss", every=2, min_length=_LONG)(_loses(_ALL.__eq__, lambda got: got == _ALL[1::2]))


@_check("loss", rate=0.5, **_UP)
def _loss(probe: FaultProbe) -> None:
    _loses(_some)(probe)
    seen = []
    for _ in range(2):
        again = FaultProbe(probe.lab, "loss", {"rate": 0.5, **_UP})
        with ports(probe.emulation, *_ENDS) as (lower, upper):
            again.strike()
            seen.append(across(lower, upper))
            again.heal()
    expect(seen[0] == seen[1], "the same seed does not lose the same packets")


@_check("corrupt", rate=1, offset=100, flip=0x81, **_UP)
def _corruption(probe: FaultProbe) -> None:
    with ports(probe.emulation, *_ENDS) as (lower, upper):
        probe.strike()
        lower.send(bytes(512), END)
        (got,) = upper.receive()
        probe.heal()
    expect([(at, byte) for at, byte in enumerate(got) if byte] == [(100, 0x81)], "not exactly one byte changed")
    expect(probe.counters["damaged"] == 1, f"one frame was damaged, {probe.counters} were counted")


@_check("ev_loss", everywhere=True, paths=[{"plane": 1, "uplink": 2}])
def _ev_loss(probe: FaultProbe) -> None:
    packets = [srv6_packet(srv6.ev(1, uplink, srv6.ev_tag(uplink))) for uplink in (1, 2, 3)]
    with ports(probe.emulation, *_ENDS, ethertype=ETH_P_IPV6) as (lower, upper):
        probe.strike()
        lower.send(*packets, END)
        got = upper.receive()
        probe.heal()
    expect([packet in got for packet in packets] == [True, False, True], "not exactly the packets of the path are lost")
    expect(probe.counters["dropped"] == 1, f"one packet was lost, {probe.counters} were counted")


def _late(least: float, wanted: Callable[[list[int]], bool]) -> Check:
    """Frames take `least` seconds more, and come in an order that is `wanted`."""

    def check(probe: FaultProbe) -> None:
        with ports(probe.emulation, *_ENDS) as (lower, upper):
            probe.strike()
            began = time.monotonic()
            got = across(lower, upper)
            took = time.monotonic() - began
            probe.heal()
            upper.drain()
            expect(took >= least, f"frames came after {took * 1000:.0f} ms instead of {least * 1000:.0f}")
            expect(wanted(got), f"frames came as {got}")
            expect(across(lower, upper) == _ALL, "frames are lost or late after the relay went")

    return check


_DETOUR: dict[str, Any] = {"link": _CABLE, "direction": "up"}
_check("delay", delay=0.03, **_DETOUR)(_late(0.03, _ALL.__eq__))
_check("jitter", delay=0.03, jitter=0.01, **_DETOUR)(_late(0.02, _ALL.__eq__))
_check("reorder", delay=0.03, share=0.5, **_DETOUR)(_late(0.0, lambda got: got != _ALL[: len(got)]))


@_check("swap_cables", links=[_CABLE, _OTHER])
def _swap(probe: FaultProbe) -> None:
    with ports(probe.emulation, *_ENDS, "h1-p2", "t0-p2-1-1") as (one, other, third, fourth):
        probe.strike()
        crossed = across(one, fourth) == across(third, other) == _ALL
        probe.heal()
        expect(crossed, "swapped cables do not lead to each other's far ends")
        expect(across(one, other) == across(third, fourth) == _ALL, "cables stay swapped")


# --- processes ------------------------------------------------------------------------------------------------------


@_check("switch_crash", switch=_SWITCH)
def _crash(probe: FaultProbe) -> None:
    pid = probe.pid(_SWITCH)
    probe.strike()
    expect(not probe.emulation.is_alive(_SWITCH), "a killed switch lives")
    expect(all(carriers(probe.emulation).values()), "carrier went with the process")
    probe.heal()
    expect(probe.pid(_SWITCH) != pid, "it was not started anew")


@_check("switch_freeze", switch=_SWITCH)
def _freeze(probe: FaultProbe) -> None:
    pid = probe.pid(_SWITCH)
    probe.strike()
    state = process_state(pid)
    probe.heal()
    expect(state == "T" and process_state(pid) != "T", "a frozen switch runs, or a healed one stands")


@_check("switch_reboot", switch=_SWITCH, takes=0.1)
def _reboot(probe: FaultProbe) -> None:
    pid = probe.pid(_SWITCH)
    probe.strike()
    found = {interface for interface, up in carriers(probe.emulation).items() if not up}
    probe.until_over()
    expect(len(found) == 2 * len(probe.fault.links(probe.lab.fabric)), f"without carrier were {sorted(found)}")
    expect(probe.pid(_SWITCH) != pid, "it was not started anew")
    expect(probe.status()["by_switch"][_SWITCH]["state"] == "ready", "its carrier came before its entries")
    warm = FaultProbe(probe.lab, "switch_reboot", {"switch": _SWITCH, "takes": 0.1, "keep_state": True})
    pid = probe.pid(_SWITCH)
    warm.strike()
    state = process_state(pid)
    warm.until_over()
    expect(state == "T" and probe.pid(_SWITCH) == pid, "a switch that keeps its state was started anew")
    expect(all(carriers(probe.emulation).values()), "carrier does not come back")


@_check("wrong_entry", switch=_SWITCH, port=1, to=2)
def _wrong_entry(probe: FaultProbe) -> None:
    probe.strike()
    found = probe.lab.call("controller", "audit")["entries"]
    probe.heal()
    expect(len(found) == 1 and _SWITCH in found[0], f"the audit found {found}")
    left = probe.lab.call("controller", "audit")["entries"]
    expect(not left, f"still wrong: {left}")


@_check("controller_crash")
def _controller_crash(probe: FaultProbe) -> None:
    before = {name: pid for name, pid in probe.emulation.processes().items() if name != "controller"}
    probe.strike()
    expect(not probe.emulation.is_alive("controller"), "a killed controller lives")
    probe.heal()
    expect(before.items() <= probe.emulation.processes().items(), "other processes ended with the controller")


@_check("controller_restart")
def _controller_restart(probe: FaultProbe) -> None:
    pid = probe.pid("controller")
    probe.strike()
    probe.until_over()
    expect(probe.pid("controller") != pid, "the controller was not started anew")


@_check("controller_partition", switch=_SWITCH)
def _partition(probe: FaultProbe) -> None:
    probe.strike()
    switches = _until(lambda: probe.status()["by_switch"], lambda by: by[_SWITCH]["state"] != "ready")
    probe.heal()
    away = [name for name, state in switches.items() if state["state"] != "ready"]
    expect(away == [_SWITCH], f"the controller lost {away}")
    expect(probe.emulation.is_alive(_SWITCH), "the switch died of it")


@_check("controller_slow", period=0.2, pause=0.1)
def _slow(probe: FaultProbe) -> None:
    pid = probe.pid("controller")

    def see(stands: bool) -> None:
        seen = _until(lambda: process_state(pid) == "T", lambda stopped: stopped == stands)
        expect(seen == stands, f"the controller does not {'stop' if stands else 'go on'}")

    probe.strike()
    for stands in (True, False):
        see(stands)
        time.sleep(max(0.0, probe.line.next_due() - time.monotonic()))
        probe.line.advance(0.0, {})  # one step, however late it is
    see(stands=True)
    probe.heal()
    see(stands=False)


@_check("agent_crash", host="h2")
def _agent_crash(probe: FaultProbe) -> None:
    probe.strike()
    expect(not probe.emulation.is_alive("h2"), "a killed agent lives")
    probe.heal()
    expect(probe.lab.call("h2", "hello")["pid"] == probe.pid("h2"), "another agent answers")


@_check("background", **{"from": "h1", "to": "h2", "plane": 1, "uplink": 2, "rate_pps": 500})
def _background(probe: FaultProbe) -> None:
    cables = probe.emulation.cables
    path = probe.lab.fabric.path_links("h1", "h2", 1, 2)

    def carried() -> list[int]:
        return [max(cables.forwarded(link)) for link in path]

    def crossed(now: list[int]) -> bool:  # by every cable, since they are read one after the other
        return all(b - a >= 20 for a, b in zip(before, now, strict=True))

    before = carried()
    probe.strike()
    seen = _until(carried, crossed)
    probe.heal()
    expect(probe.counters["sent"] >= 20, f"it counted {probe.counters}")
    expect(crossed(seen), "its packets do not cross the whole path")


@_check("chaos", duration=1.0, every=0.2, shortest=0.1, longest=0.3, settle=0, kinds=["link_down", "loss", "delay"])
def _chaos(probe: FaultProbe) -> None:
    probe.strike()
    probe.until_over()
    begun, ended = probe.records("fault.begin"), probe.records("fault.end")
    expect(len(begun) > 1 and len(begun) == len(ended), f"{len(begun)} faults began, {len(ended)} were healed")


# --- the whole ------------------------------------------------------------------------------------------------------


def faults() -> Iterator[SelfTestVerdict]:
    """Test the kernel's back-ends and then every kind, one verdict each. Needs root; see `kinds`."""
    yield from back_ends.faults()
    yield from kinds()


def kinds(target: str | None = None, only: Collection[str] = ()) -> Iterator[SelfTestVerdict]:
    """Test every kind, or some, on a target; one verdict each, the last on what was left behind.

    LabError or TopoError where no lab can be brought up.
    """
    base = Path(f"/run/mrclab-faults-{os.getpid()}")
    with lab_session(Fabric(load(FABRIC)), lambda *_: None, target=target, run_dir=base / "lab") as lab:
        for kind, (fields, check) in _CHECKS.items():
            if not only or kind in only:
                yield _verdict(lab, kind, fields, check)
    left = [str(path) for path in (base, *kernel.NETNS_DIR.glob(f"{base.name}*")) if path.exists()]
    yield SelfTestVerdict("nothing is left of the lab", not left, f"still there: {', '.join(left)}" if left else "")


def _verdict(lab: LabSession, kind: str, fields: dict[str, Any], check: Check) -> SelfTestVerdict:
    probe = FaultProbe(lab, kind, fields)
    before = _footprint(lab)
    try:
        check(probe)
        left = _until(lambda: _footprint(lab), lambda now: now == before)
        expect(left == before, f"it left {left} where {before} was")
        outcome = lab.call("controller", "wait_verified", timeout=_TIMEOUT)
        expect(outcome["verified"], f"the fabric is not whole again: {outcome['problems']} {outcome['not_ready']}")
    except (LabError, TopoError, OSError) as error:
        return SelfTestVerdict(kind, holds=False, detail=str(error))
    finally:
        probe.line.heal_all()
    return SelfTestVerdict(kind, holds=True)


def _footprint(lab: LabSession) -> dict[str, Any]:
    """What a fault may not change for good."""
    return {
        "processes": sorted(lab.emulation.processes()),
        "counters": sorted(kernel.nft_counters(lab.emulation.cables.descriptor)),
        "down": sorted(interface for interface, up in carriers(lab.emulation).items() if not up),
    }


def _until(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    """What `look` sees as soon as it is enough, or at last."""
    deadline = time.monotonic() + _TIMEOUT
    while not enough(seen := look()) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return seen
