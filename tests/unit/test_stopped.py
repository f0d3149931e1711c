"""Processes that a signal has stopped: named with their state, by all that wait for them, within seconds."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from lab_history import END, RTT, START, measures

from mrclab.lab.command.live import operations, up
from mrclab.lab.errors import LabError, RunError, Stopped, as_run_error
from mrclab.lab.history import Record
from mrclab.lab.prompt.remote import client
from mrclab.lab.run.wire import attach
from mrclab.lab.run.wire.watchdog import Stops
from mrclab.rpc import peers
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcStopped
from mrclab.topo.errors import ProcessStopped
from mrclab.topo.linux import adaptivetimeout
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout
from mrclab.topo.model import Fabric
from mrclab.topo.process.beat import BEAT_S, Beat
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec())
_SERVER = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as deaf:
    deaf.bind(sys.argv[1]); deaf.listen()
    print("ready", flush=True)
    time.sleep(1000)
"""


@contextmanager
def stopped_server(path):
    """A process that listens on a Unix socket and is stopped."""
    with subprocess.Popen([sys.executable, "-c", _SERVER, str(path)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            yield process
        finally:
            process.kill()


def test_who_listens_on_a_socket_and_whether_it_is_stopped_can_be_read_from_outside(tmp_path):
    assert peers.server_pid(tmp_path / "nobody.sock") is None
    with stopped_server(tmp_path / "h1.sock") as process:
        assert peers.server_pid(tmp_path / "h1.sock") == process.pid
        assert peers.is_stopped(process.pid)
    assert not peers.is_stopped(os.getpid())
    assert not peers.is_stopped(None)


def test_a_call_to_a_stopped_process_ends_in_seconds_and_names_it_unless_it_is_meant_to_stand(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "STOPPED_S", 0.3)
    with stopped_server(tmp_path / "h1.sock") as process:
        with Client(tmp_path / "h1.sock", 60.0) as client:
            assert client.pid == process.pid
            with pytest.raises(RpcStopped, match=rf"is stopped \(process {process.pid}, state T"):
                client.call("stats")
        with Client(tmp_path / "h1.sock", 0.8, may_stop=lambda: True) as client:
            with pytest.raises(Exception, match="did not answer stats in time") as caught:
                client.call("stats")
            assert not isinstance(caught.value, RpcStopped)


def test_the_lab_names_a_stopped_agent_and_never_blames_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "STOPPED_S", 0.3)
    lab = attach.LabClients(tmp_path, FABRIC)
    with stopped_server(tmp_path / "h1.sock") as process:
        assert lab.stopped() == {"h1": process.pid}
        with pytest.raises(Stopped, match=rf"the agent of h1 is stopped \(process {process.pid}, state T.*kill -CONT"):
            lab.call("h1", "stats")
    assert lab.stopped() == {}


def test_commands_name_a_controller_that_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "STOPPED_S", 0.3)
    said = r"^the controller is stopped \(process \d+, state T"
    with stopped_server(tmp_path / "controller.sock"), pytest.raises(RunError, match=said):
        operations.ask(tmp_path, "status")


def test_a_wait_for_a_stopped_process_is_given_up_and_says_why(tmp_path, monkeypatch):
    busy = SimpleNamespace(now=100.0)
    monkeypatch.setattr(adaptivetimeout, "time", SimpleNamespace(monotonic=lambda: busy.now))
    monkeypatch.setattr(
        adaptivetimeout, "cpu_times", lambda _pid=None: adaptivetimeout.CpuTimes(2 * busy.now, 0.0, 0.0, 0.0)
    )
    with stopped_server(tmp_path / "x.sock") as process:
        wait = AdaptiveTimeout(60.0)
        wait.waited_for = {"switch t0-p1-1": process.pid}
        assert not wait.over
        busy.now += 4.0
        assert wait.over
        error = wait.error("t0-p1-1, t0-p1-2", "answer")
        assert isinstance(error, ProcessStopped)
        assert str(error).startswith(f"switch t0-p1-1 is stopped (process {process.pid}, state T")
        assert as_run_error(error).status == 3
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED | os.WNOWAIT)
        assert not wait.over


def test_a_stop_is_recorded_at_once_said_after_a_second_and_its_end_too():
    records, lines = [], []
    stops = Stops(FABRIC, lambda event, t=None: records.append((event.kind, t, event.fields())), lines.append)
    stops.poll(10.0, {"h1": 7})
    stops.poll(10.1, {})  # a moment only
    assert records == lines == []
    stops.poll(20.0, {"h1": 7, "relay-x": 8})
    stops.poll(20.1, {"h1": 7})
    assert records == [("process.stopped", 20.0, {"process": "h1", "pid": 7})]
    stops.poll(21.0, {"h1": 7})
    stops.poll(22.0, {"h1": 7})
    assert len(lines) == 1
    assert lines[0].startswith("the agent of h1 is stopped (process 7, state T")
    stops.poll(23.5, {})
    assert records[1:] == [("process.resumed", None, {"process": "h1", "seconds": 3.5})]
    assert lines[1:] == ["the agent of h1 goes on after 3.5 s"]


# --- verdicts -------------------------------------------------------------------------------------------------------


def invalid(*more):
    return measures(change=lambda records: [*records, *more]).invalid


def lab(t, kind, **fields):
    return Record(t, "lab", kind, fields)


@pytest.mark.parametrize("who", ["relay-h1-p1-both", "background-noise", "h1", "t0-p1-1"])
def test_a_process_that_a_signal_stopped_makes_the_run_invalid(who):
    stop = lab(START + 1, "process.stopped", process=who, pid=7)
    said = f"a signal stopped {who} (state T) for 3.00 s from 1.00 s on"
    assert invalid(stop, lab(START + 4, "process.resumed", process=who, seconds=3.0)) == [said]
    assert (
        invalid(lab(START - 9, "process.stopped", process=who, pid=7), lab(START - 1, "process.resumed", process=who))
        == []
    )


def test_one_that_never_went_on_counts_to_the_end_and_the_controller_only_where_it_matters():
    (reason,) = invalid(lab(END - 2, "process.stopped", process="relay-x", pid=7))
    assert "for 2.00 s" in reason
    assert invalid(lab(END - 2, "process.stopped", process="controller", pid=7)) == []


def test_a_helper_that_was_late_makes_the_run_invalid_and_one_that_was_on_time_does_not():
    assert invalid(lab(START + 5, "helper.late", process="relay-x", late=0.5 * RTT, at=START + 3)) == []
    (reason,) = invalid(lab(START + 5, "helper.late", process="relay-x", late=3.0, at=START + 4))
    assert reason == "the process relay-x was 3.00 s late at 4.00 s"
    assert invalid(lab(START + 5, "helper.late", process="relay-x", late=3.0, at=START - 1)) == []


def test_a_beat_keeps_the_worst_delay_whether_it_slept_or_worked():
    beat = Beat(100.0)
    assert beat.wait(None, 100.0) == pytest.approx(BEAT_S)
    beat.woken(100.0 + BEAT_S)
    assert beat.take()["late"] == pytest.approx(0.0, abs=1e-6)
    assert beat.wait(100.06, 100.05) == pytest.approx(0.01)
    beat.woken(103.06)  # asleep for three seconds too long
    assert beat.take() == {"late": 3.0, "at": 103.06}
    beat.wait(None, 110.0)  # at work for seven
    beat.woken(110.0)
    assert beat.take()["late"] == pytest.approx(110.0 - 103.06 - BEAT_S)
    assert beat.take()["late"] == 0.0


def test_a_client_waits_for_ever_where_it_is_told_to(tmp_path):
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "x.sock"))
        deaf.listen()
        with Client(tmp_path / "x.sock", float("inf")) as client:
            timer = threading.Timer(0.6, client.abort)
            timer.start()
            began = time.monotonic()
            with pytest.raises(Exception, match="closed the connection"):
                client.call("stats")
            assert time.monotonic() - began >= 0.5


def test_a_lab_in_virtual_time_whose_prompt_is_stopped_keeps_its_place(tmp_path):
    with stopped_server(tmp_path / client.SOCKET), pytest.raises(LabError, match="has its prompt in another terminal"):
        up._mirror(None, tmp_path)
    assert (tmp_path / client.SOCKET).exists()
