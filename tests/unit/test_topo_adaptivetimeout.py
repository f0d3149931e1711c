"""Limits of waits: how they stretch, and what is said where they strike."""

import socket
from types import SimpleNamespace

import pytest

from mrclab.lab.errors import RunError, TooSlow
from mrclab.lab.run.wire import attach, wireworld
from mrclab.topo.errors import EmulationError, MachineTooSlow
from mrclab.topo.linux import adaptivetimeout
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout, CpuTimes, MachineSlowness
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


@pytest.fixture
def machine(monkeypatch):
    """Two CPUs whose time and counters the test sets: `wait(seconds, idle share)`."""
    it = SimpleNamespace(now=100.0, idle=0.0, process=0.0)

    def wait(seconds, idle=1.0, process=0.0):
        it.now += seconds
        it.idle += 2 * seconds * idle
        it.process += seconds * process

    it.wait = wait
    monkeypatch.setattr(adaptivetimeout, "time", SimpleNamespace(monotonic=lambda: it.now))
    monkeypatch.setattr(adaptivetimeout, "cpu_times", lambda _pid=None: CpuTimes(2 * it.now, it.idle, 0.0, it.process))
    return it


def test_a_limit_strikes_at_once_where_the_machine_is_idle(machine):
    wait = AdaptiveTimeout(30.0)
    machine.wait(29.0)
    assert not wait.over
    machine.wait(2.0)
    assert wait.over
    error = wait.error("h1", "make its socket")
    assert not isinstance(error, MachineTooSlow)
    assert str(error) == "h1 took more than 31 s to make its socket, though the machine had CPU to spare"


def test_a_limit_stretches_while_the_machine_is_busy_and_then_blames_it(machine):
    wait = AdaptiveTimeout(30.0)
    machine.wait(100.0, idle=0.05)
    assert not wait.over
    machine.wait(30.0, idle=0.05)
    assert wait.over
    assert isinstance(wait.error("h1", "make its socket"), MachineTooSlow)


def test_a_limit_stretches_while_the_process_itself_is_at_work(machine):
    wait = AdaptiveTimeout(30.0, pid=1)
    machine.wait(60.0, idle=0.5, process=0.9)
    assert not wait.over


def test_limits_stretch_by_how_slowly_the_first_processes_started(machine):
    slowness = MachineSlowness()
    slowness.observe(4.0, usual=0.8)
    wait = AdaptiveTimeout(30.0, slowness)
    machine.wait(149.0)
    assert not wait.over
    machine.wait(600.0)
    assert wait.over
    assert "5 times as long as usual" in str(wait.error("h1", "make its socket"))
    assert isinstance(wait.error("h1", "make its socket"), MachineTooSlow)


def test_time_in_which_a_process_was_stopped_does_not_count(machine, monkeypatch):
    stopped = {7}
    monkeypatch.setattr(adaptivetimeout.peers, "is_stopped", lambda pid: pid in stopped)
    wait = AdaptiveTimeout(0.6, pid=7)
    for _ in range(6):
        machine.wait(0.5, idle=0.02)
        assert not wait.over
    stopped.clear()
    machine.wait(0.5, idle=0.02)
    assert not wait.over
    machine.wait(3.2, idle=0.02)
    assert wait.over
    assert "took more than 6.7 s" in str(wait.error("h1", "make its socket"))


@pytest.mark.parametrize(("idle", "kind"), [(0.02, TooSlow), (1.0, RunError)])
def test_a_process_that_does_not_get_ready_ends_the_bring_up_with_the_reason(machine, idle, kind):
    lab = SimpleNamespace(
        emulation=SimpleNamespace(processes=lambda: {"h1": 1}),
        slowness=MachineSlowness(),
        check=lambda: None,
        last_output=lambda _name: "it said nothing",
    )

    def never():
        machine.wait(5.0, idle)
        return False

    with pytest.raises(RunError, match=r"h1 took more than .* to make its socket: it said nothing") as caught:
        wireworld.WireWorld._wait(lab, never, "h1", "its socket")
    assert type(caught.value) is kind
    assert caught.value.status == (3 if kind is TooSlow else 1)


@pytest.mark.parametrize(("idle", "kind"), [(0.02, TooSlow), (1.0, RunError)])
def test_a_node_that_does_not_answer_is_late_or_slow(machine, tmp_path, monkeypatch, idle, kind):
    monkeypatch.setattr(attach, "ANSWER_TIMEOUT", 0.05)
    lab = attach.LabClients(tmp_path, Fabric(FabricSpec()))
    counted = adaptivetimeout.cpu_times
    monkeypatch.setattr(adaptivetimeout, "cpu_times", lambda pid=None: (machine.wait(20.0, idle), counted(pid))[1])
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "h1.sock"))
        deaf.listen()
        with pytest.raises(RunError, match=r"h1 took more than .* to answer stats") as caught:
            lab.call("h1", "stats")
    assert type(caught.value) is kind


def test_the_kernel_counts_what_a_glance_reads():
    before = adaptivetimeout.cpu_times()
    assert before.all > before.idle > 0
    assert issubclass(MachineTooSlow, EmulationError)
