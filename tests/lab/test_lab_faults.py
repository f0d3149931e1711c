"""Faults of a scenario in a small real lab: the order in which they are cleared, what is counted, and Ctrl-C."""

import contextlib
import os
import signal
import time

import pytest
from fault_ground import Ground, fault, scoped
from mrclab_command import Command, small_scenario
from topo_helpers import StandIn, ports, run_dir, small_fabric

from mrclab.lab.errors import RunError
from mrclab.lab.faults.timeline import TimeLine
from mrclab.topo.linux import state
from mrclab.topo.linux.emulation import Emulation

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]

NIC, OTHER, UPLINK = "h1-p1/t0-p1-1", "h2-p1/t0-p1-2", "t0-p1-1/t1-p1-1"


@pytest.fixture(scope="module")
def emulation():
    with Emulation(small_fabric(), run_dir("-faults"), StandIn()) as running:
        yield running


@pytest.fixture
def ground(emulation):
    yield Ground(emulation)
    emulation.cables.clear_all()


def test_what_is_still_in_force_at_the_end_is_healed_the_last_first(ground):
    faults = [
        fault(ground, "one", "link_down", link=NIC),
        fault(ground, "two", "silent_drop", at="1s", until="2s", link=OTHER),
        fault(ground, "three", "switch_crash", at="1500ms", switch="t1-p1-1"),
        fault(ground, "four", "delay", at="3s", link=UPLINK, delay="1ms"),
        fault(ground, "never", "link_down", at="100s", link=UPLINK),
    ]
    line = TimeLine(ground, faults)
    for second in (0.0, 1.0, 1.5, 2.0, 3.0):
        line.advance(second, {})
    assert [fields["fault"] for fields in ground.of("fault.begin")] == ["one", "two", "three", "four"]
    assert [fields["fault"] for fields in ground.of("fault.end")] == ["two"]
    assert not ground.emulation.is_alive("t1-p1-1")
    line.clear_all()
    assert [fields["fault"] for fields in ground.of("fault.end")] == ["two", "four", "three", "one"]
    assert ground.emulation.is_alive("t1-p1-1")
    assert ground.emulation.cables.is_up(NIC)
    assert ground.may_end == {"relay-t0-p1-1-t1-p1-1-both"}  # of processes that run again none is excused
    assert not line.pending


def test_a_cable_that_two_faults_hold_down_comes_back_with_the_last_of_them(ground):
    with scoped(ground, fault(ground, "plane", "plane_down", plane=1)):
        with scoped(ground, fault(ground, "cut", "link_down", link=NIC)):
            assert not ground.emulation.cables.is_up(NIC)
        assert not ground.emulation.cables.is_up(NIC)
    assert all(ground.emulation.cables.is_up(link) for link in ground.fabric.links)


def test_one_that_cannot_be_healed_does_not_keep_the_others(ground):
    line = TimeLine(
        ground,
        [fault(ground, "one", "link_down", link=NIC), fault(ground, "gone", "delay", link=UPLINK, delay="1ms")],
    )
    line.advance(0.0, {})
    relay = "relay-t0-p1-1-t1-p1-1-both"
    os.kill(ground.emulation.processes()[relay], signal.SIGKILL)
    with pytest.raises(RunError, match=rf"gone could not be cleared: {relay} was killed by SIGKILL; "):
        line.clear_all()
    assert ground.emulation.cables.is_up(NIC)
    assert not line.pending


def test_ctrl_c_while_one_is_healed_comes_when_all_are(ground, monkeypatch):
    line = TimeLine(
        ground,
        [fault(ground, "one", "link_down", link=NIC), fault(ground, "two", "swap_cables", links=[NIC, UPLINK])],
    )
    line.advance(0.0, {})
    swap = ground.emulation.cables.swap

    def interrupted(*cables):
        swap(*cables)
        raise KeyboardInterrupt

    monkeypatch.setattr(ground.emulation.cables, "swap", interrupted)
    with pytest.raises(KeyboardInterrupt):
        line.clear_all()
    assert ground.emulation.cables.is_up(NIC)


def test_a_strike_that_is_refused_leaves_nothing_in_force(ground):
    line = TimeLine(
        ground,
        [
            fault(ground, "one", "link_down", link=NIC),
            fault(ground, "two", "delay", link=UPLINK, delay="1ms"),
            fault(ground, "three", "swap_cables", links=[NIC, UPLINK]),
        ],
    )
    with contextlib.ExitStack() as stack:
        stack.callback(line.clear_all)
        with pytest.raises(RunError, match="three cannot begin while two is in force: both concern the frames of"):
            line.advance(0.0, {})
    assert ground.emulation.cables.is_up(NIC)


def test_losses_on_many_cables_are_one_fault_with_one_exact_count(ground):
    nics = [link.name for link in ground.fabric.links if link.kind == "nic"]
    loss = fault(ground, "loss", "host_loss", every=4, min_length=200)
    with ports(ground.emulation, "t0-p1-1-1", "t0-p1-2-1") as switches, scoped(ground, loss):
        for port in switches:
            for _ in range(20):
                port.send(bytes(300))
    (counted,) = ground.of("fault.counters")
    assert (counted["fault"], counted["seen"], counted["dropped"]) == ("loss", 40, 10)
    (begun,) = ground.of("fault.begin")
    assert begun["links"] == nics


def test_a_flap_goes_on_until_its_count_is_full_and_is_over_then(ground):
    line = TimeLine(ground, [fault(ground, "flap", "flap", link=NIC, rate=20, down="20ms", count=4)])
    began = time.monotonic()
    line.advance(0.0, {})
    while line.pending:
        time.sleep(max(0.0, line.next_due() - time.monotonic()))
        line.advance(time.monotonic() - began, {})
    assert [fields["up"] for fields in ground.of("fault.edge")] == [False, True] * 4
    assert ground.of("fault.counters")[0]["flaps"] == 4
    assert [fields["fault"] for fields in ground.of("fault.end")] == ["flap"]


def test_ctrl_c_heals_what_is_in_force(tmp_path):
    rest = "faults:\n" + "".join(
        f"  - {{name: {name}, at: 100ms, {fields}}}\n"
        for name, fields in (
            ("cut", "kind: link_down, link: h1-p1"),
            ("crash", "kind: switch_crash, switch: t0-p2-1"),
            ("loss", "kind: loss, link: h2-p1, rate: 10%"),
        )
    )
    command = Command(run_dir("-faults-ctrl-c"))
    process = command.start("run", small_scenario(tmp_path, "16 MiB", rest), "--results", tmp_path / "results")
    try:
        said = command.interrupt(process, lambda: command.recorded("fault.begin"))
    finally:
        state.clean(command.run_dir.parent)
    cleared = [line.split(":")[0].strip() for line in said.splitlines() if ": cleared" in line]
    assert cleared == ["loss", "crash", "cut"][-len(cleared) :]
    assert cleared[-1] == "cut"


def test_faults_are_struck_and_healed_at_the_prompt(tmp_path):
    command = Command(run_dir("-faults-prompt"))
    words = (
        "fault loss link=h1-p9 rate=1%",
        "fault loss link=h1-p1 rate=1% name=gray",
        "fault flap link=h1-p2 period=100ms",
        "fault switch_crash switch=t1-p2-1",
        "faults",
        "send h1 h2 64KiB",
        "clear gray",
        "clear grey",
        "clear",
        "faults",
        "fault plane_down plane=1",
        "quit",
    )
    process = command.start("up", small_scenario(tmp_path, "1"))
    try:
        command.wait_until(lambda: command.recorded("lab.up"), process)
        said, _ = process.communicate("\n".join(words) + "\n", timeout=60)
    finally:
        process.kill()
        process.wait()
        state.clean(command.run_dir.parent)
    assert process.returncode == 0
    lines = [line.removeprefix("mrclab> ") for line in said.splitlines()]
    told = lines[next(n for n, line in enumerate(lines) if line.startswith("loss.link: no cable is called")) :]
    assert told[1] == "gray: h1-p1/t0-p1-1 loses 1% of packets"
    assert told[4:7] == [told[1], "fault-3: h1-p2/t0-p2-1 flaps every 100 ms for 50 ms", "fault-4: t1-p2-1 crashes"]
    assert told[7].endswith("intact")
    assert told[8].startswith("gray: cleared (seen ")
    assert told[9] == "no fault named 'grey' is in force; known here: fault-3, fault-4"
    assert told[10] == "fault-4: cleared"
    assert told[11].startswith("fault-3: cleared (flaps ")
    assert told[12:14] == ["none", "fault-5: plane 1 down"]
    assert command.remains() == []
