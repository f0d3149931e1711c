"""Tests each fault mechanism on this machine's kernel, with real frames through real cables, and that nothing is left.

A small fabric is built with a stand-in for the switch process; then every fault is injected, verified and cleared. What
the kernel or nftables cannot do is reported here, in one sentence, and not in the middle of a scenario.
"""

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mrclab.topo import srv6
from mrclab.topo.cables.cablefaults import Action, Corrupt, Drop, EveryNth, Loss, Match, Packets, RateLimit, SeededLoss
from mrclab.topo.cables.helper import impair
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.cables.testports import END, ETH_P_IPV6, across, expect, ports, process_state, srv6_packet
from mrclab.topo.errors import TopoError
from mrclab.topo.linux import kernel
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.switches.targets import Launch, Softswitch
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

_DATA = Match(min_length=200)  # leaves the end mark alone
_CABLE, _OTHER = "h1-p1", "h2-p1"
_LISTENER = "import signal, socket, sys; s = socket.socket(1); s.bind(sys.argv[1]); s.listen(); signal.pause()"


@dataclass(frozen=True)
class SelfTestVerdict:
    """Verdict of the test of one kind of fault; `detail` has the reason where it failed."""

    name: str
    passed: bool
    detail: str = ""


class _StandIn(Softswitch):
    name = "stand-in"
    schedules_itself = False

    def argv(self, launch: Launch) -> list[str]:
        return [sys.executable, "-S", "-E", "-c", _LISTENER, str(launch.socket)]


def _joined(lab: Emulation) -> None:
    with ports(lab, "h1-p1", "t0-p1-1-1") as (one, other):
        frames = [os.urandom(size) for size in (46, 1500, 4096, lab.fabric.spec.interface_mtu)]
        for sender, receiver in ((one, other), (other, one)):
            sender.send(*frames, END)
            expect(receiver.receive() == frames, "frames do not cross a cable unchanged")


def _link_down(lab: Emulation) -> None:
    with ports(lab, "h1-p1", "t0-p1-1-1", "h2-p1", "t0-p1-1-2") as (one, other, third, fourth):
        lab.cables.down(_CABLE)
        expect(not one.carrier() and not other.carrier(), "carrier stays at a port of a cable that is down")
        expect(third.carrier() and fourth.carrier(), "another cable lost its carrier")
        expect(across(third, fourth) == list(range(40)), "another cable lost frames")
        lab.cables.up(_CABLE)
        expect(one.carrier() and other.carrier(), "carrier does not come back")


def _packets(action: Action, expected: Callable[[list[int]], bool]) -> Callable[[Emulation], None]:
    def check(lab: Emulation) -> None:
        with ports(lab, "h2-p1", "t0-p1-1-2") as (one, other):
            fault = lab.cables.inject(_OTHER, action, match=_DATA, direction="up")
            got, back = across(one, other), across(other, one)
            count = lab.cables.clear(fault)
            expect(expected(got), f"{len(got)} of 40 frames arrived: {got}")
            expect(back == list(range(40)), "the other direction lost frames")
            expect(count.seen == 40 and count.hit == 40 - len(got), f"counted {count}, {len(got)} of 40 arrived")
            expect(across(one, other) == list(range(40)), "frames are lost after the fault was cleared")

    return check


def _seeded(lab: Emulation) -> None:
    action = SeededLoss(0.25, "seed")
    _cycle, lost = action.numbers()
    _packets(action, lambda got: got == [number for number in range(40) if number not in lost])(lab)


def _corruption(lab: Emulation) -> None:
    with ports(lab, "h2-p1", "t0-p1-1-2") as (one, other):
        fault = lab.cables.inject(_OTHER, Corrupt(offset=100, flip=0x81), match=_DATA, direction="up")
        one.send(bytes(512), END)
        (got,) = other.receive()
        lab.cables.clear(fault)
        expect([(at, byte) for at, byte in enumerate(got) if byte] == [(100, 0x81)], "not exactly one byte changed")


def _listed(match: Match, survivors: list[int]) -> Callable[[Emulation], None]:
    def check(lab: Emulation) -> None:
        evs = [srv6.ev(1, uplink, srv6.ev_tag(uplink)) for uplink in (1, 2, 3)]
        with ports(lab, "h2-p1", "t0-p1-1-2", ethertype=ETH_P_IPV6) as (one, other):
            fault = lab.cables.inject(_OTHER, Drop(), match=match, direction="up")
            one.send(*(srv6_packet(ev) for ev in evs), END)
            got = other.receive()
            lab.cables.clear(fault)
            arrived = [number for number, ev in enumerate(evs, 1) if srv6_packet(ev) in got]
            expect(arrived == survivors, f"of EVs 1, 2, 3 these arrived: {arrived}")

    return check


def _swapped(lab: Emulation) -> None:
    with ports(lab, "h1-p1", "t0-p1-1-1", "h2-p1", "t0-p1-1-2") as (one, other, third, fourth):
        lab.cables.swap(_CABLE, _OTHER)
        crossed = across(one, fourth) == across(other, third) == list(range(40))
        lab.cables.swap(_CABLE, _OTHER)
        expect(crossed, "swapped cables do not lead to each other's far ends")
        expect(across(one, other) == across(third, fourth) == list(range(40)), "cables stay swapped")


def _relayed(lab: Emulation) -> None:
    with ports(lab, "h2-p1", "t0-p1-1-2") as (one, other):
        relayed = impair(lab, _OTHER, Impairment(delay=0.03, lose=(2, 3)), direction="up")
        began = time.monotonic()
        got = across(one, other)
        late = time.monotonic() - began
        relayed.clear()
        expect(late >= 0.03, f"frames came after {late * 1000:.0f} ms instead of 30")
        expect(got == [0, *range(3, 40)], f"frames 2 and 3 should be lost; these arrived: {got}")
        expect(across(one, other) == list(range(40)), "frames are lost after the relay went")


def _processes(lab: Emulation) -> None:
    lab.kill("t0-p1-1")
    expect(not lab.is_alive("t0-p1-1"), "a killed switch is alive")
    lab.restart("t0-p1-1")
    pid = lab.processes()["t0-p1-1"]
    lab.freeze("t0-p1-1")
    status = process_state(pid)
    lab.thaw("t0-p1-1")
    expect(status == "T", "a frozen switch runs")


_CHECKS: dict[str, Callable[[Emulation], None]] = {
    "cable joins its ports": _joined,
    "link down and up": _link_down,
    "silent drop": _packets(Drop(), lambda got: not got),
    "gray loss": _packets(Loss(0.5), lambda got: 4 < len(got) < 36),  # else once in five million runs
    "seeded loss": _seeded,
    "every n-th packet": _packets(EveryNth(4), lambda got: got == [n for n in range(40) if n % 4]),
    "listed packets": _packets(Packets((1, 7, 40)), lambda got: got == [n for n in range(40) if n not in {0, 6, 39}]),
    "rate limit": _packets(RateLimit(1, burst=5), lambda got: got[:5] == list(range(5)) and len(got) < 40),
    "corruption": _corruption,
    "loss of one uSID": _listed(Match(usids=(srv6.usid(srv6.UsidType.T1, 1, 2),)), [1, 3]),
    "loss of one EV": _listed(Match(evs=(srv6.ev(1, 3, srv6.ev_tag(3)),)), [1, 2]),
    "loss of one path": _listed(Match(paths=((1, 1),)), [2, 3]),
    "swapped cables": _swapped,
    "relay": _relayed,
    "switch crash, freeze and restart": _processes,
}


def faults() -> Iterator[SelfTestVerdict]:
    """Test every kind of fault, one verdict each; the last is on leftovers. Needs root; else TopoError."""
    fabric = Fabric(load({"planes": 1, "t0s": 1, "t1s": 1, "hosts_per_t0": 2}))
    base = Path(f"/run/mrclab-selftest-{os.getpid()}")
    with Emulation(fabric, base / "lab", _StandIn()) as lab:
        for name, check in _CHECKS.items():
            yield verdict(name, functools.partial(check, lab))
            lab.cables.clear_all()
    yield leftovers(base, "nothing is left behind")


def verdict(name: str, check: Callable[[], None], error_type: type[Exception] = TopoError) -> SelfTestVerdict:
    """Run a check; it has failed where it raises TopoError, OSError or `error_type`."""
    try:
        check()
    except (TopoError, OSError, error_type) as error:
        return SelfTestVerdict(name, passed=False, detail=str(error))
    return SelfTestVerdict(name, passed=True)


def leftovers(base: Path, name: str) -> SelfTestVerdict:
    """Verify that a lab's base directory and its namespaces are gone."""
    left = [str(path) for path in (base, *kernel.NETNS_DIR.glob(f"{base.name}*")) if path.exists()]
    return SelfTestVerdict(name, not left, f"still there: {', '.join(left)}" if left else "")
