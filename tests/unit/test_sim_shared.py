"""Shared buffers and priority flow control in virtual time: thresholds as published, no loss, what pauses cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.sim.clock import SECOND, Clock
from mrclab.sim.fabric import SimFabric
from mrclab.sim.frame import SimFrame, of_bytes, usids_of
from mrclab.sim.injector import SimFaultInjector
from mrclab.sim.links.cable import CableEnd, HalfLink
from mrclab.sim.switches.sharedbuffer import PausablePort
from mrclab.topo import spec as specs
from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import Dscp

pytestmark = pytest.mark.sources  # Sink derives from a class that is compiled

FULL = 4096 + 142
RATE = 400e9


def fabric(**queue: object) -> Fabric:
    told = {"planes": 1, "t0s": 2, "t1s": 2, "hosts_per_t0": 4, "link": {"rate": "400 Gb/s", "delay": "600ns"}}
    return Fabric(specs.load({**told, "trimming": False, "queue": queue}))


def frame(host: int, dscp: int = Dscp.NO_TRIM) -> SimFrame:
    """A full frame within the T0 group, to a host by its downlink."""
    made = of_bytes(bytes(FULL))
    address = srv6.LOCATOR << 96 | srv6.usid(srv6.UsidType.T0, 1, 1) << 80
    address |= srv6.usid(srv6.UsidType.DOWNLINK, 1, host) << 64
    made.usids, made.fault, made.dscp, made.size = usids_of(address), 0, dscp, FULL
    return made


class Sink(CableEnd):
    """A host that counts what it gets."""

    def __init__(self) -> None:
        self.got = 0

    def receive(self, frame: SimFrame, half_link: HalfLink) -> None:
        self.got += 1


class Sender:
    """A NIC in place of a host's: sends to a downlink at line rate unless its switch has paused it."""

    def __init__(self, rig: "Rig", host: int, to: Sequence[int]) -> None:
        self.rig, self.half_link, self.to = rig, rig.half_links[host], list(to)
        self.paused = False
        self.sent = 0
        self.waits = 0
        rig.clock.call_at(0, self.send)

    def pause(self, number: int, on: bool) -> None:
        self.paused = on
        self.waits += on
        if not on:
            self.rig.clock.call_at(self.rig.clock.now, self.send)

    def send(self, _: object) -> None:
        clock = self.rig.clock
        if self.paused or clock.now >= self.rig.until:
            return
        self.half_link.enter(frame(self.to[self.sent % len(self.to)]), clock.now + self.rig.ticks)
        self.sent += 1
        clock.call_at(clock.now + self.rig.ticks, self.send)


class Rig:
    """One T0 with four hosts; those that send heed pauses, the others count."""

    def __init__(self, until: float, **queue: object) -> None:
        self.clock = Clock()
        self.sim = SimFabric(self.clock, fabric(**queue), 1)
        self.until = round(until * SECOND)
        self.ticks = round(FULL * 8 / RATE * SECOND)
        cables = [self.sim.cable(f"h{host}-p1") for host in range(1, 5)]
        self.half_links = {host: cable.half_links[0] for host, cable in enumerate(cables, 1)}
        self.sinks = {}
        for host, cable in enumerate(cables, 1):
            self.sinks[host] = Sink()
            cable.half_links[1].attach(self.sinks[host], 1)
        self.switch = self.sim.switches["t0-p1-1"]

    def sends(self, host: int, *to: int) -> Sender:
        made = Sender(self, host, to)
        self.sim.host_end(f"h{host}").nic = made  # type: ignore[assignment]
        return made

    def port(self, host: int) -> PausablePort:
        found = self.switch.ports[host - 1]
        assert isinstance(found, PausablePort)
        return found

    def run(self, seconds: float) -> None:
        self.clock.run(self.clock.now + round(seconds * SECOND))


@pytest.mark.parametrize("alpha", [0.5, 1, 4])
def test_one_full_queue_holds_what_choudhury_and_hahne_give(alpha: float) -> None:
    size = 200 * FULL
    rig = Rig(60e-6, buffer=size, alpha=alpha)
    rig.sends(2, 1)
    rig.sends(3, 1)
    rig.run(60e-6)
    held = rig.port(1).depth() * FULL
    assert held == pytest.approx(alpha / (1 + alpha) * size, abs=2 * FULL)
    assert rig.port(1).dropped > 0


def test_two_full_queues_share_as_the_formula_says() -> None:
    size = 200 * FULL
    rig = Rig(100e-6, buffer=size, alpha=1)
    for host in (1, 2):
        rig.sends(host, 3, 4)
    rig.sends(3, 4)
    rig.sends(4, 3)
    rig.run(100e-6)
    for host in (3, 4):  # alpha B / (1 + 2 alpha)
        assert rig.port(host).depth() * FULL == pytest.approx(size / 3, abs=3 * FULL)


def test_pauses_keep_every_frame_and_share_the_line() -> None:
    rig = Rig(100e-6, buffer=4_000_000, alpha=0.02, pfc={})
    senders = [rig.sends(host, 1) for host in (2, 3, 4)]
    rig.run(300e-6)
    assert rig.port(1).dropped == 0
    assert all(sender.waits > 3 for sender in senders)
    assert rig.sinks[1].got == sum(sender.sent for sender in senders)
    assert [sender.sent for sender in senders] == pytest.approx([senders[0].sent] * 3, rel=0.15)
    assert rig.port(1).depth() == 0
    assert rig.port(2).xoffs == senders[0].waits


def test_a_peer_that_has_forgotten_its_pause_is_paused_again() -> None:
    """The carrier of its port went and came: it sends, and the switch has paused it."""
    rig = Rig(150e-6, buffer=4_000_000, alpha=0.02, pfc={})
    senders = [rig.sends(host, 1) for host in (2, 3, 4)]
    for _ in range(40):
        rig.run(1e-6)
        if rig.clock.now > 20e-6 * SECOND and all(sender.paused for sender in senders):
            break
    waits = senders[0].waits
    senders[0].pause(2, False)
    rig.run(4e-6)
    assert senders[0].waits > waits
    rig.run(400e-6)
    lost = rig.port(1).dropped
    assert lost * FULL <= rig.sim.model.spec.headroom  # what was under way until then
    assert rig.sinks[1].got + lost == sum(sender.sent for sender in senders)
    (buffer,) = rig.sim._buffers.values()
    assert buffer.used == 0


def test_a_peer_that_forgets_its_pause_is_paused_again_also_where_its_headroom_is_full() -> None:
    rig = Rig(1e-3, buffer=4_000_000, alpha=0.02, pfc={})
    sender = rig.sends(2, 1)
    rig.port(1).pause(True)  # nothing leaves
    rig.run(50e-6)
    for waits in range(2, 6):
        sender.pause(2, False)
        rig.run(50e-6)
        assert (sender.paused, sender.waits) == (True, waits)
    rig.port(1).pause(False)
    rig.run(20e-6)
    assert not sender.paused


def test_cables_that_are_swapped_meanwhile_give_their_buffer_back() -> None:
    rig = Rig(100e-6, buffer=4_000_000, alpha=0.02, pfc={})
    senders = [rig.sends(host, 1) for host in (2, 3, 4)]
    rig.run(20e-6)
    one, other = rig.half_links[2], rig.half_links[3]
    here, there = one.end, other.end
    one.attach(*there)
    other.attach(*here)
    rig.run(400e-6)
    (buffer,) = rig.sim._buffers.values()
    assert buffer.used == 0
    assert not any(sender.paused for sender in senders)
    assert rig.sinks[1].got == sum(sender.sent for sender in senders)


@pytest.mark.parametrize("meanwhile", ["cut", "swap"])
def test_a_switch_port_whose_cable_goes_or_leads_elsewhere_forgets_the_pause_of_its_peer(meanwhile: str) -> None:
    """A pause is the peer's to refresh; two switches that paused each other would wait for ever."""
    rig = Rig(0, buffer=4_000_000, pfc={})
    port, nic = rig.port(1), rig.sends(2)
    port.pause(True)
    nic.paused = True
    rig.half_links[3].enter(frame(1), 0)
    rig.run(5e-6)
    assert (port.paused, port.depth()) == (True, 1)
    if meanwhile == "cut":
        rig.sim.cable("h1-p1").set_carrier(False)
    else:
        SimFaultInjector(rig.sim, 1).swap("h1-p1", "h2-p1")
        assert not nic.paused
    rig.run(5e-6)
    assert (port.paused, port.depth()) == (False, 0)


def test_headroom_that_is_too_small_loses_what_was_under_way() -> None:
    rig = Rig(100e-6, buffer=400_000, alpha=0.1, pfc={"headroom": FULL})
    for host in (2, 3, 4):
        rig.sends(host, 1)
    rig.run(300e-6)
    assert rig.port(1).dropped > 0


def test_a_frame_for_an_idle_host_waits_behind_a_paused_one_s_sender() -> None:
    """Head-of-line blocking: h2 sends to the congested h1 and to the idle h4 in turn."""
    blocked, free = [], []
    for congested, found in ((True, blocked), (False, free)):
        rig = Rig(150e-6, buffer=4_000_000, alpha=0.02, pfc={})
        rig.sends(2, 1, 4)
        if congested:
            rig.sends(3, 1)
            rig.sends(4, 1)
        rig.run(150e-6)
        found.append(rig.sinks[4].got)
    assert blocked[0] < 0.8 * free[0]


def test_a_storm_is_ended_by_the_watchdog() -> None:
    rig = Rig(200e-6, buffer=4_000_000, alpha=0.02, pfc={"watchdog": "50us"})
    both = rig.sends(2, 1, 4)
    port = rig.port(1)
    port.pause(True)  # h1's NIC is broken: it pauses forever
    rig.run(45e-6)
    stuck = rig.sinks[4].got
    assert both.paused
    rig.run(100e-6)
    assert port.storms == 1
    assert port.dropped > 0
    assert rig.sinks[4].got > 2 * stuck
    assert port.paused_seconds == pytest.approx(145e-6)
    port.pause(False)
    before = rig.sinks[1].got
    rig.run(20e-6)
    assert rig.sinks[1].got > before


def test_a_storm_ends_after_the_restoration_time_without_a_pause() -> None:
    """SONiC: PFC works again on a queue where no pause was seen for the restoration time."""
    rig = Rig(500e-6, buffer=4_000_000, alpha=0.02, pfc={"watchdog": "50us", "watchdog_restoration": "80us"})
    rig.sends(2, 1)
    port = rig.port(1)
    port.pause(True)
    rig.run(60e-6)
    assert port.storms == 1
    port.pause(False)
    rig.run(60e-6)
    port.pause(True)  # within the restoration time: the storm goes on
    rig.run(60e-6)
    port.pause(False)
    rig.run(70e-6)
    assert (port.storms, rig.sinks[1].got) == (1, 0)
    rig.run(20e-6)
    assert rig.sinks[1].got > 0


def test_detection_begins_when_a_pause_holds_data() -> None:
    """SONiC: packets wait, none leaves and the peer pauses, all for the detection time."""
    rig = Rig(0, buffer=4_000_000, pfc={"watchdog": "50us"})
    port = rig.port(1)
    port.pause(True)
    rig.run(200e-6)
    assert port.storms == 0  # nothing waits
    rig.half_links[2].enter(frame(1), rig.clock.now)
    rig.run(45e-6)
    assert (port.storms, port.depth()) == (0, 1)
    rig.run(10e-6)
    assert (port.storms, port.depth(), port.dropped) == (1, 0, 1)


def test_a_pause_shorter_than_the_detection_time_is_no_storm() -> None:
    rig = Rig(500e-6, buffer=4_000_000, alpha=0.02, pfc={"watchdog": "50us"})
    rig.sends(2, 1)
    port = rig.port(1)
    for _ in range(4):
        port.pause(True)
        rig.run(45e-6)
        port.pause(False)
        rig.run(1e-6)
    assert (port.storms, port.dropped) == (0, 0)


def test_a_storm_may_be_forwarded_in_spite_of_pauses() -> None:
    """SONiC: action forward."""
    rig = Rig(200e-6, buffer=4_000_000, alpha=0.02, pfc={"watchdog": "50us", "watchdog_action": "forward"})
    rig.sends(2, 1)
    port = rig.port(1)
    port.pause(True)
    rig.run(45e-6)
    assert rig.sinks[1].got == 0
    rig.run(50e-6)
    assert (port.storms, port.dropped) == (1, 0)
    assert rig.sinks[1].got > 50
    port.pause(False)
    port.pause(True)  # the storm is over: pauses count again
    rig.run(10e-6)
    before = rig.sinks[1].got
    rig.run(20e-6)
    assert rig.sinks[1].got == before


def test_control_is_never_paused() -> None:
    rig = Rig(0, buffer=4_000_000, pfc={})
    rig.port(1).pause(True)
    for dscp in (Dscp.NO_TRIM, Dscp.CONTROL):
        rig.half_links[2].enter(frame(1, dscp), 0)
    rig.run(50e-6)
    assert rig.sinks[1].got == 1
    assert rig.port(1).depth() == 1


def test_a_switch_that_dies_gives_its_buffer_back() -> None:
    rig = Rig(20e-6, buffer=4_000_000, alpha=0.02, pfc={})
    for host in (2, 3, 4):
        rig.sends(host, 1)
    rig.run(20e-6)
    assert rig.port(1).depth() > 0
    rig.switch.die()
    (buffer,) = rig.sim._buffers.values()
    assert (buffer.used, rig.port(1).depth()) == (0, 0)


class Replaced:
    """A fault that hands on another frame, as damage does."""

    def on_frame(self, frame: SimFrame, half_link: HalfLink) -> SimFrame:
        return frame.copy()


def test_a_damaged_frame_counts_for_the_port_that_it_came_by() -> None:
    rig = Rig(10e-6, buffer=4_000_000, pfc={})
    rig.half_links[2].faults = (Replaced(),)
    rig.sends(2, 1)
    rig.run(20e-6)
    assert rig.sinks[1].got > 50
    (buffer,) = rig.sim._buffers.values()
    assert buffer.ingress(rig.half_links[2]).shared_used == 0


def test_a_switch_that_dies_forgets_its_pauses() -> None:
    rig = Rig(100e-6, buffer=4_000_000, alpha=0.02, pfc={"watchdog": "20us"})
    for host in (2, 3, 4):
        rig.sends(host, 1)
    port = rig.port(1)
    port.pause(True)
    rig.run(60e-6)
    assert all((port.storms, port.paused_seconds, rig.port(2).xoffs))
    rig.switch.die()
    assert (port.paused, port.storms, port.paused_seconds, rig.port(2).xoffs) == (False, 0, 0, 0)
    rig.switch.revive()
    rig.switch.provision()
    rig.run(20e-6)
    assert rig.sinks[1].got > 50  # it sends again, and its peer's next pause will stop it


def test_a_scenario_with_pauses_counts_them_and_loses_nothing(tmp_path: Path) -> None:
    told = {
        "name": "paused",
        "world": "sim",
        "fabric": {"planes": 1, "t0s": 2, "t1s": 2, "hosts_per_t0": 4, "link": {"rate": "400 Gb/s", "delay": "600ns"}},
        "transport": {"kind": "roce", "congestion_control": "none"},
        "traffic": [{"name": "all", "kind": "incast", "from": ["h5", "h6", "h7"], "to": "h1", "size": "512 KiB"}],
        "timeout": "10ms",
        "expect": [
            {"kind": "pauses", "at_least": 3},
            {"kind": "pauses", "element": "t0-p1-2", "at_least": 3},
            {"kind": "drops", "reason": "queue", "at_most": 0},
        ],
    }
    told["fabric"] |= {"queue": {"buffer": 2_000_000, "alpha": 0.1, "pfc": {}}}
    outcome = runner.run_scenario(scenario.from_data(told, "paused.yaml"), tmp_path, lambda *_: None, lambda _: None)
    assert [verdict.observed for verdict in outcome.verdicts if not verdict.ok] == []
    assert "paused for" in outcome.verdicts[0].observed


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"queue": {"pfc": True}}, "links count packets: give link.rate"),
        ({"queue": {"buffer": 1_000_000}}, "give link.rate"),
        ({"queue": {"buffer": 100_000, "pfc": {}}, "link": {"rate": "400 Gb/s"}}, "bytes of headroom and four packets"),
        (
            {"queue": {"pfc": {"watchdog_action": "forward"}}, "link": {"rate": "400 Gb/s"}},
            "fabric.queue.pfc: watchdog_action has no effect without watchdog; give watchdog, or leave it out",
        ),
        (
            {"queue": {"pfc": {"watchdog_restoration": "1ms"}}, "link": {"rate": "400 Gb/s"}},
            "fabric.queue.pfc: watchdog_restoration has no effect without watchdog",
        ),
        (
            {"queue": {"pfc": {"xoff": 10_000, "xon": 20_000}}, "link": {"rate": "400 Gb/s"}},
            "fabric.queue.pfc: xon 20000 exceeds xoff 10000; lower xon or raise xoff",
        ),
    ],
)
def test_a_buffer_that_cannot_be_is_refused_with_the_remedy(fields: dict[str, object], says: str) -> None:
    with pytest.raises(specs.SpecError, match=says):
        specs.load(fields)


def test_pfc_alone_has_the_buffer_of_a_chip() -> None:
    link = {"rate": "400 Gb/s", "delay": "600ns"}
    shape = {"planes": 1, "t0s": 2, "t1s": 16, "hosts_per_t0": 16, "link": link}
    fabric = specs.load({**shape, "queue": {"pfc": True}})
    assert fabric.queue.buffer == round(35e-6 * 32 * 400e9 / 8)
    assert fabric.queue.pfc == specs.PfcSpec()
    assert specs.load(fabric.model_dump(mode="json")) == fabric
    assert specs.load({**shape, "queue": {"pfc": False}}).queue.buffer == 0
