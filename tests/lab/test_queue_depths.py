"""Queue depths are read from running switches of either target; one that does not answer holds up nobody."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from bmv2 import TARGETS
from controller_lab import ControlledLab, controlled_lab

from mrclab.lab.history import HistoryWriter, load
from mrclab.lab.measure.fabric.switches import Switches
from mrclab.lab.run.wire.watch import Watch
from mrclab.topo.linux.switches import thrift
from mrclab.topo.linux.switches.depths import REGISTER, DepthReply, QueueDepths

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]

ONE, OTHER = "t0-p1-1", "t1-p1-1"


@pytest.fixture(scope="module", params=TARGETS)
def lab(request: pytest.FixtureRequest) -> Iterator[ControlledLab]:
    with controlled_lab("-depth", request.param, planes=1, t1s=1) as made:
        made.start_controller()
        with closing(
            made.emulation.queue_depths()
        ) as depths:  # all answer when the controller has loaded their program
            sample_until(made, depths, lambda told: len(told) == len(made.fabric.switches))
        yield made


@pytest.fixture
def depths(lab: ControlledLab) -> Iterator[QueueDepths]:
    with closing(lab.emulation.queue_depths()) as made:
        yield made


def write(lab: ControlledLab, switch: str, port: int, packets: int) -> None:
    """Let the data plane believe that packets wait. No data flows here, so nothing else writes the register."""
    if lab.emulation.target.name == "bmv2":
        with thrift.ThriftClient(lab.emulation.namespace(switch), 9090, "standard") as client:
            cell = thrift.i32(0), thrift.text(REGISTER), thrift.i32(port), thrift.i64(packets)
            client.call("bm_register_write", *cell)
        return
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(lab.run_dir / f"{switch}.ctl.sock"))
        control.sendall(f"register_write {REGISTER} {port} {packets}\n".encode())
        assert control.recv(100) == b"ok\n"


def sample_until(
    lab: ControlledLab, depths: QueueDepths, enough: Callable[[dict[str, DepthReply]], Any]
) -> dict[str, DepthReply]:
    found: dict[str, DepthReply] = {}

    def poll() -> bool:
        found.clear()
        found.update(depths.sample())
        return bool(enough(found))

    lab.wait(poll)
    return found


def test_every_port_of_every_switch_is_told_and_the_busy_ones_reach_the_history(lab, depths, tmp_path):
    write(lab, ONE, 2, 17)
    write(lab, OTHER, 1, 3)
    everyone = {switch.name for switch in lab.fabric.switches}
    found = sample_until(lab, depths, lambda told: set(told) == everyone)
    assert {name: told.depths for name, told in found.items()} == {
        switch.name: {
            port.number: {(ONE, 2): 17, (OTHER, 1): 3}.get((switch.name, port.number), 0) for port in switch.ports
        }
        for switch in lab.fabric.switches
    }
    with closing(HistoryWriter(tmp_path / "lab.jsonl")) as log:
        watch = Watch(dict, log, depths)
        lab.wait(lambda: watch.poll() or all(not r["silent"] for r in [*load(tmp_path).of("depths")][-1:]))
        write(lab, ONE, 2, 0)
        lab.emulation.freeze(OTHER)
        watch.poll()
        lab.emulation.thaw(OTHER)
    *_, whole, last = load(tmp_path).of("depths")
    late = set(everyone) if lab.emulation.target.name == "soft" else set()
    assert (whole["switches"], whole["silent"]) == ({ONE: {"2": 17}, OTHER: {"1": 3}}, [])
    assert set(whole["late"]) == late
    assert (last["switches"], last["silent"]) == ({}, [OTHER])
    told = Switches(load(tmp_path)).depth
    assert told[ONE, 2].values[-2:] == [17, 0]
    assert (told[OTHER, 1].values[-1], told[OTHER, 1].times[-1]) == (3, whole.t)  # nobody knows what is in it now


def test_a_switch_that_is_frozen_or_dead_is_left_out_until_it_answers_again(lab, depths):
    everyone = {switch.name for switch in lab.fabric.switches}
    sample_until(lab, depths, lambda told: set(told) == everyone)
    lab.emulation.freeze(OTHER)
    sample_until(lab, depths, lambda told: set(told) == everyone - {OTHER})
    sample_until(lab, depths, lambda told: set(told) == everyone - {OTHER})
    lab.emulation.thaw(OTHER)
    sample_until(lab, depths, lambda told: set(told) == everyone)
    write(lab, ONE, 1, 9)
    lab.emulation.kill(ONE)
    sample_until(lab, depths, lambda told: set(told) == everyone - {ONE})
    lab.emulation.restart(ONE)  # without a program first: it refuses until the controller has loaded one
    found = sample_until(lab, depths, lambda told: set(told) == everyone)
    assert found[ONE].depths[1] == 0


def test_a_switch_that_did_not_run_while_frames_came_tells_how_late_it_was(lab, depths):
    if lab.emulation.target.name != "soft":
        pytest.skip("BMv2 cannot tell; the kernel's scheduler says what it waited for a CPU")
    everyone = {switch.name for switch in lab.fabric.switches}
    sample_until(lab, depths, lambda told: set(told) == everyone)
    sender = "import socket; s = socket.socket(17, 3); s.bind(('h1-p1', 0)); s.send(bytes(60))"
    lab.emulation.freeze(ONE)
    lab.emulation.network.get("h1").cmd(f'{sys.executable} -c "{sender}"')
    sent = time.monotonic()
    depths.sample()
    waited = time.monotonic() - sent
    lab.emulation.thaw(ONE)
    worst = 0.0

    def told_all(told: dict[str, DepthReply]) -> bool:
        nonlocal worst
        worst = max(worst, told[ONE].late or 0.0) if ONE in told else worst
        return worst >= waited

    sample_until(lab, depths, told_all)
