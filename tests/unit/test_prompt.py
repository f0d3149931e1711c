"""The prompt in virtual time: every word on a lab that is up, in a script, from another terminal, with completion."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from prompt_lab import CABLE, SPEC, session, told
from prompt_toolkit.application import create_app_session
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console
from scapy.utils import RawPcapNgReader

from mrclab.hosts.scapy_mrc import RETH, dissect
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.prompt import prompt, registry
from mrclab.lab.prompt.completion import WordCompleter
from mrclab.lab.prompt.prompt import Prompt
from mrclab.lab.prompt.remote import client, service
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import virtual_world
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError
from mrclab.topo.model import Fabric, UnknownName
from mrclab.topo.spec import FabricSpec

__all__ = ["session"]


def test_a_wait_goes_on_in_whole_slices_once_the_machine_is_idle_again(monkeypatch):
    clock, slices = [0.0], []
    with (
        virtual_world(Fabric(FabricSpec.model_validate(SPEC))) as world,
        LabSession(world, speed=1e-6, threaded=False).open() as session,
    ):
        advance = session.lab.advance_to

        def busy(until):
            slices.append(until)
            clock[0] += 1.0 if len(slices) < 40 else 0.0  # seconds that the machine was busy with something else
            assert len(slices) < 1000
            return advance(until)

        monkeypatch.setattr(session.lab, "advance_to", busy)
        monkeypatch.setattr("mrclab.lab.prompt.session.time", SimpleNamespace(monotonic=lambda: clock[0]))
        told(session, "wait 1s")


def test_nodes_of_a_fabric_of_pods_are_all_there():
    fabric = Fabric(FabricSpec(planes=1, pods=2, t0s=2, t1s=1, t2s=1))
    found = registry.run(SimpleNamespace(world=SimpleNamespace(fabric=fabric)), "nodes").data
    names = [name for every in found.values() for name in every]
    assert sorted(names) == sorted(node.name for node in (*fabric.hosts, *fabric.switches))
    assert found["t2"] == ["t2-p1-1"]


def test_a_lab_goes_on_where_its_history_cannot_be_written_for_others():
    def full():
        raise OSError(28, "No space left on device")

    with (
        virtual_world(Fabric(FabricSpec.model_validate(SPEC))) as world,
        LabSession(world, speed=1.0, observers=[full], threaded=False).open() as session,
    ):
        session.step()
        assert registry.run(session, "faults").data["errors"] == ["No space left on device"]


def test_a_bug_of_what_a_lab_does_by_itself_is_told_once_and_time_goes_on(capsys):
    broken = {}

    with (
        virtual_world(Fabric(FabricSpec.model_validate(SPEC))) as world,
        LabSession(world, speed=1.0, observers=[lambda: broken["key"]], threaded=False).open() as session,
    ):
        session.step()
        session.step()
        assert registry.run(session, "faults").data["errors"] == ["KeyError: 'key'"]
    assert capsys.readouterr().err.count("Traceback") == 1


def test_a_bug_of_a_command_leaves_the_lab_up(session, monkeypatch, capsys):
    bad = registry.Command("broken", "has a bug", lambda _session: {}["key"])
    monkeypatch.setitem(registry.COMMANDS, "broken", bad)
    typed = Prompt(session, Console(file=io.StringIO()), {})
    assert typed.line("broken")
    with pytest.raises(LabError, match=r"broken has a bug, KeyError: 'key'; the lab stays up"):
        typed.script(["broken"])
    assert 'lambda _session: {}["key"]' in capsys.readouterr().err


def test_a_lab_is_closed_where_its_capture_cannot_be_written(monkeypatch):
    closed = []

    def full():
        raise LabError("cannot write capture.pcapng: No space left on device")

    with virtual_world(Fabric(FabricSpec.model_validate(SPEC))) as world:
        block = contextlib.ExitStack()
        session = block.enter_context(LabSession(world, speed=1.0, threaded=False).open())
        close = session.lab.close
        monkeypatch.setattr(session.lab, "close", lambda: (closed.append(True), close()))
        monkeypatch.setattr(session.capture, "close", full)
        with pytest.raises(LabError, match="No space left"):
            block.close()
    assert closed == [True]


def test_a_command_whose_file_cannot_be_written_leaves_the_lab_up(session, monkeypatch, tmp_path):
    def full(_source, target):
        raise OSError(28, "No space left on device", str(target))

    (tmp_path / "file").write_text("bytes")
    monkeypatch.setattr("mrclab.lab.prompt.commands.changes.shutil.copyfile", full)
    with pytest.raises(LabError, match=r"send-1: No space left on device; free space there, and do it again"):
        registry.run(session, f"send h1 h2 {tmp_path}/file")


def test_paths_name_every_hop_and_their_state(session):
    found = told(session, "paths h1 h2")["paths"]
    assert [(path["plane"], path["uplink"]) for path in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert found[1]["hops"] == ["2101 t0-p1-1", "1102 t1-p1-2", "2102 t0-p1-2", "3101 h2"]
    assert found[1]["address"] == "fcbb:bb00:2101:1102:2102:3101::"
    assert {path["state"] for path in found} == {"unused"}
    told(session, f"down {CABLE}")
    assert [bool(path["faults"]) for path in told(session, "paths h1 h2")["paths"]] == [False, True, False, False]


def test_traffic_runs_in_the_background_while_a_cable_fails_and_evs_outlive_it(session):
    told(session, "traffic write from=h1 to=h2 size=4MiB name=big")
    told(session, "wait 100ms")
    assert told(session, "flows")["flows"][0]["state"] == "runs"
    told(session, f"down {CABLE}")
    told(session, "wait 200ms")
    states = {(row["plane"], row["uplink"]): row["state"] for row in told(session, "evs h1")["evs"]}
    assert states[1, 2] == "ASSUMED_BAD"
    assert set(states.values()) == {"ASSUMED_BAD", "GOOD"}
    assert told(session, "wait big")["flows"] == {"big": "intact"}
    assert len(told(session, "evs h1")["evs"]) == 4  # also now that it is over
    assert told(session, f"up {CABLE}") == {"link": CABLE, "up": True}


def test_send_waits_and_says_how_it_went(session, tmp_path):
    file = tmp_path / "a file"
    file.write_bytes(os.urandom(5001))
    assert told(session, f"send h1 h2 '{file}'")["state"] == "intact"
    answer = told(session, "send h2 h1 64KiB")
    assert (answer["bytes"], answer["state"]) == (65536, "intact")
    assert answer["seconds"] > 0


def test_trace_shows_each_shift_and_loses_its_probe_on_a_dead_path(session):
    answer = told(session, "trace h1 h2 1/2")
    assert answer["rtt"] == pytest.approx(0.008, rel=0.5)
    hops = answer["hops"]
    assert [hop["switch"] for hop in hops] == ["t0-p1-1", "t1-p1-2", "t0-p1-2"]
    assert hops[0]["after"] == hops[1]["before"] == "fcbb:bb00:1102:2102:3101::"
    assert all(hop["sent"] >= 1 for hop in hops)
    told(session, f"down {CABLE}")
    assert told(session, "trace h1 h2 10208000")["rtt"] is None
    answer = told(session, "pingall")
    assert answer["sent"] == 8
    assert {(row["plane"], row["uplink"]) for row in answer["lost"]} >= {(1, 2)}
    assert {row["plane"] for row in answer["lost"]} == {1}  # answers come back over paths of the same plane


def test_faults_are_listed_and_healed(session):
    told(session, "fault loss link=h1-p1 rate=50% name=gray")
    told(session, "fault switch_crash switch=t1-p2-1 name=crash")
    assert list(told(session, "faults")["faults"]) == ["gray", "crash"]
    assert told(session, "clear gray")["cleared"][0].startswith("gray: cleared")
    assert len(told(session, "clear")["cleared"]) == 1
    old = registry.run(session, "heal")
    assert old.data == {"cleared": []}
    assert old.shown.renderables[0] == "heal is called clear now; the next release has only clear"
    assert told(session, "faults")["faults"] == {}


def test_what_down_cut_is_a_fault_until_up(session):
    told(session, f"down {CABLE}")
    (name,) = told(session, "faults")["faults"]
    assert CABLE in told(session, "faults")["faults"][name]
    told(session, f"up {CABLE}")
    assert told(session, "faults")["faults"] == {}


def test_tables_show_each_entry_with_its_key_and_those_that_are_wrong(session):
    out = Console(width=120, record=True)
    out.print(registry.run(session, "tables t0-p1-1").shown)
    text = out.export_text()
    assert "trim_policy[std.egress_spec=0x1] -> set_trim" in text
    assert "all as they should be" in text
    told(session, "fault wrong_entry switch=t0-p1-1 port=2 name=wrong")
    (sentence,) = told(session, "tables t0-p1-1")["wrong"]
    assert sentence.startswith("t0-p1-1 usid_fib")
    assert told(session, "tables t1-p1-1")["wrong"] == []


def test_precheck_says_whether_a_job_may_start(session):
    assert told(session, "precheck")["ok"]
    told(session, "down h1-p1")
    told(session, "deny t1-p2-1")
    answer = told(session, "precheck")
    assert not answer["ok"]
    assert {check["name"] for check in answer["checks"] if not check["ok"]} == {"cables", "h1", "denylist"}


def test_what_is_denied_is_seen_by_the_paths(session):
    told(session, "deny t1-p1-2")
    told(session, "traffic stream from=h1 to=h2 size=256KiB name=s")
    told(session, "wait")
    assert {row["state"] for row in told(session, "evs h1")["evs"] if (row["plane"], row["uplink"]) == (1, 2)} <= {
        "DENIED"
    }
    assert told(session, "undeny t1-p1-2")["changed"]


def test_a_capture_in_virtual_time_holds_what_ports_sent_and_got_with_notes_at_faults(session, tmp_path):
    path = tmp_path / "h1.pcapng"
    told(session, f"capture {path} h1")
    told(session, "send h1 h2 64KiB")
    told(session, "fault loss link=h1-p1 rate=100% name=gray")
    told(session, "wait 50ms")
    told(session, "clear gray")
    told(session, "send h2 h1 8KiB")
    answer = told(session, "capture stop")
    frames = list(RawPcapNgReader(str(path)))
    assert answer == {"path": str(path), "frames": len(frames)}
    writes = [data for data, _ in frames if dissect(data).haslayer(RETH)]
    assert len(writes) >= 2 * (64 + 8)  # each once as sent, once as it arrived
    assert b"gray: h1-p1/t0-p1-1 loses 100%" in path.read_bytes()
    assert b"h1-p1" in path.read_bytes()
    with pytest.raises(LabError, match="no capture goes on"):
        registry.run(session, "capture stop")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("capture /nonexistent/x h1", "cannot write /nonexistent/x"),
        ("pingal", "pingal: no such command; did you mean pingall?"),
        ("traceroute h1", "traceroute: no such command; did you mean trace?"),
        ("paths h1", "usage: paths HOST HOST"),
        ("paths h1 h1", "h1 cannot reach itself over the fabric; name two hosts"),
        ("paths h1 h9", "no host is called 'h9'"),
        ("trace h1 h2 3/1", "there is no path over plane 3, uplink 1"),
        ("trace h1 h2 zz", "'zz' is not an EV"),
        ("fault losss link=h1-p1", "no kind of fault is called 'losss'; did you mean 'loss'?"),
        ("fault loss link=h1-p1 rat=1%", "rat"),
        ("fault controller_slow", "virtual time"),
        ("fault loss h1-p1", "'h1-p1' is not a field"),
        ("traffic writ from=h1 to=h2 size=1", "no kind of traffic is called 'writ'; did you mean 'write'?"),
        ("traffic write from=h1 to=h2 sise=1", "sise"),
        ("send h1 h2 /nonexistent", "there is no file /nonexistent"),
        ("stop it", "no traffic is named 'it'"),
        ("speed never", "'never' is not a number"),
        ("wait soon", "no traffic is named 'soon', and 'soon' is not a duration"),
        ("wait 1s 2s", "usage: wait [FLOW or TIME]"),
        ("clear one other", "usage: clear [FAULT]"),
        ("status now", "usage: status"),
        ("trace h1 h2 1/1 1/2", "usage: trace HOST HOST [EV]"),
        ("counters t0-p1-1 t0-p2-1", "usage: counters [SWITCH]"),
        ("down", "usage: down CABLE"),
        ("fault link_down link=h1-p1 at=5s", "link_down.at: only a scenario has this field"),
        ("fault link_down link=h1-p1 until=5s", "and lasts until it is cleared"),
        ("traffic write from=h1 to=h2 size=1 start=5s", "write.start: only a scenario has this field"),
        ("traffic write from=h1 to=h2 size=1 transport='{qps: 2}'", "write.transport: only a scenario has this"),
        ("wait 1e9", "1e9 of virtual time is too long to wait for at once; at most 3600 s"),
        ("clear it", "no fault named 'it' is in force"),
        ("clear ''", "no fault named '' is in force"),  # as of a shell's variable that is empty
        ("send h1 'h2", "the line cannot be read"),
    ],
)
def test_mistakes_get_a_sentence(session, line, said):
    with pytest.raises((ValueError, LabError, RunError, UnknownName)) as raised:
        registry.run(session, line)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def completions(session: LabSession, text: str) -> list[str]:
    completer = WordCompleter(session, ["quit", "h1"])
    return [each.text for each in completer.get_completions(Document(text, len(text)), None)]


@pytest.mark.parametrize(
    ("typed", "line"),
    [("tr\t", "tra"), ("trac\t", "trace"), ("deny t0-\t", "deny t0-p"), ("down h1-p1\t", "down h1-p1/t0-p1-1")],
)
def test_tab_writes_what_all_candidates_share_and_no_more(session, tmp_path, monkeypatch, typed, line):
    monkeypatch.setattr(prompt, "HISTORY", tmp_path / "history")
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(f"{typed}\r")
        assert next(Prompt(session, Console(), {})._typed()) == line


@pytest.mark.parametrize("text", ["tables ", "deny ", "fault loss ", "status "])
def test_tab_offers_options_last(session, text):
    found = completions(session, text)
    assert found[-1] == "--json"
    assert not any(each.startswith("-") for each in found[:-1])


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("sp", ["speed"]),
        ("paths ", ["h1", "h2"]),
        ("paths h1 h", ["h1", "h2"]),
        ("tables t1-p2", ["t1-p2-1", "t1-p2-2"]),
        ("down t0-p1-1/", ["t0-p1-1/t1-p1-1", CABLE]),
        ("fault swi", ["switch_crash"]),
        ("fault loss ", ["link=", "rate="]),
        ("fault loss link=h1-p1", ["link=h1-p1/t0-p1-1"]),
        ("traffic write from=", ["from=h1", "from=h2"]),
        ("evs h1 --", ["--json"]),
    ],
)
def test_tab_completes_words_nodes_cables_and_fields(session, text, some):
    assert set(some) <= set(completions(session, text))


def test_a_script_stops_at_its_first_mistake_and_says_where(session, capsys):
    prompt = Prompt(session, Console(width=120), {})
    prompt.script(["# a comment", "", "nodes --json", "quit", "never reached"])
    assert json.loads(capsys.readouterr().out.splitlines()[1])["hosts"] == ["h1", "h2"]
    with pytest.raises(LabError, match="line 2 of the script, 'dance': dance: no such command"):
        prompt.script(["nodes", "dance", "nodes"])
    with pytest.raises(LabError, match="dance--json: no such command"):
        prompt.script(["dance--json"])


def test_a_tool_that_is_not_there_leaves_the_lab_up(session):
    def absent(_arguments):
        raise FileNotFoundError(2, "No such file or directory", "mnexec")

    assert Prompt(session, Console(file=(shown := io.StringIO())), {"run": absent}).line("run h1 true")
    assert shown.getvalue() == "mnexec: No such file or directory\n"


@pytest.mark.parametrize("line", ["wait big", "send h1 h2 64MiB", "h1 sleep 60"])
def test_ctrl_c_at_a_terminal_ends_the_command_and_not_the_lab(session, tmp_path, monkeypatch, line):
    monkeypatch.setattr(prompt, "HISTORY", tmp_path / "history")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    told(session, "traffic stream from=h1 to=h2 size=1GiB name=big")
    console = Console(file=(shown := io.StringIO()), width=120)
    press = threading.Timer(0.5, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    press.start()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text(f"{line}\rflows --json\rquit\r")
        Prompt(session, console, {"run": lambda _: time.sleep(60)}).interact()
    assert "interrupted; the lab stays up" in shown.getvalue()
    assert session.lab.active[0].name == "big"
    assert not session.interrupted


def test_words_work_over_the_socket_beside_the_prompt(session, tmp_path):
    with service.served(session, tmp_path):
        answer = client.ask(tmp_path, "command", line="nodes")
        assert answer["data"]["hosts"] == ["h1", "h2"]
        assert "h1 h2" in answer["text"]
        assert client.ask(tmp_path, "inject", kind="link_down", fields={"link": CABLE})["message"].endswith("down")
        (fault,) = session.lab.time_line.active
        assert fault.name in client.ask(tmp_path, "clear", name=fault.name)["message"]
        assert client.ask(tmp_path, "inject", kind="link_down", fields={"link": CABLE})["message"].endswith("down")
        assert client.ask(tmp_path, "traffic", traffic={"kind": "write", "from": "h1", "to": "h2", "size": "1 KiB"})
        assert "cleared" in client.ask(tmp_path, "clear")["message"]
        with pytest.raises(LabError, match="no such command"):
            client.ask(tmp_path, "command", line="dance")
    with pytest.raises(LabError, match="no lab is running"):
        client.ask(tmp_path, "command", line="nodes")


@pytest.mark.parametrize(
    ("operation", "arguments", "reason"),
    [
        ("inject", {"kind": "link_down"}, "operation inject: missing a required argument: 'fields'"),
        ("inject", {"kind": "link_down", "fields": 5}, "fields must be an object with a field's value by its name"),
        ("slow", {"speed": 1, "seconds": 1, "more": 2}, "operation slow: got an unexpected keyword argument 'more'"),
        ("traffic", {"traffic": "write"}, "traffic must be an object with a field's value by its name"),
        ("command", {"line": " "}, "the line is empty; help lists all commands"),
    ],
)
def test_wrong_arguments_of_an_operation_are_refused_by_their_names(
    session, tmp_path, caplog, operation, arguments, reason
):
    with service.served(session, tmp_path), pytest.raises(LabError) as refused:
        client.ask(tmp_path, operation, **arguments)
    assert (str(refused.value), caplog.messages) == (reason, [])


def test_an_operation_whose_file_or_program_is_not_there_says_which(session, tmp_path, monkeypatch, caplog):
    def absent(*_):
        raise FileNotFoundError(2, "No such file or directory", "mnexec")

    monkeypatch.setattr(session, "inject", absent)
    with service.served(session, tmp_path), pytest.raises(LabError) as refused:
        client.ask(tmp_path, "inject", kind="link_down", fields={"link": CABLE})
    assert str(refused.value).startswith("mnexec: No such file or directory; name another place; `mrclab doctor` lists")
    assert caplog.messages == []


def test_traffic_without_field_names_is_refused_with_an_example_of_traffic(session):
    with pytest.raises(ValueError, match="'h1' is not a field; write, for example, from=h1 to=h3 size=1GiB"):
        registry.run(session, "traffic stream h1 h3")


def test_who_draws_packets_is_told_of_each_while_time_is_slow_and_the_watch_ends_when_nobody_asks(session, tmp_path):
    with service.served(session, tmp_path):
        registry.run(session, "traffic stream from=h1 to=h2 size=1MiB")
        begin = client.ask(tmp_path, "packets")
        assert (begin["slow"], begin["seen"]) == (True, [])
        registry.run(session, f"down {CABLE}")
        registry.run(session, "wait 30ms")
        told = client.ask(tmp_path, "packets", since=begin["next"])
        assert len(told["seen"]) == told["next"] - begin["next"] > 0
        assert {way // 2 for _, _, way, _, arrived in told["seen"] if not arrived} == {
            session.world.fabric.link(CABLE).index
        }
        assert client.ask(tmp_path, "packets", since=told["next"])["seen"] == []
        assert client.ask(tmp_path, "slow", speed=1e-9, seconds=5)["message"]
        with pytest.raises(LabError, match="above 0 and at most 1000"):
            client.ask(tmp_path, "speed", value=0)
        client.ask(tmp_path, "speed", value=1)
        assert not client.ask(tmp_path, "packets")["slow"]


def test_a_command_that_waits_holds_up_nobody_and_ends_with_its_client(session, tmp_path):
    with service.served(session, tmp_path):
        with Client(tmp_path / client.SOCKET, 60.0) as waits, Client(tmp_path / client.SOCKET, 60.0) as sends:
            for terminal, line in ((waits, "wait 100000s"), (sends, "send h1 h2 64MiB")):
                thread = threading.Thread(target=lambda c=terminal, w=line: ended(c, w), daemon=True)
                thread.start()
            while "send-1" not in client.ask(tmp_path, "command", line="flows")["text"]:
                pass
            for line in ("nodes", "status", f"down {CABLE}", f"up {CABLE}", "wait 1ms"):
                assert client.ask(tmp_path, "command", line=line)["data"]
            assert client.ask(tmp_path, "command", line="flows")["data"]["flows"][0]["state"] == "runs"
            waits.abort()
            sends.abort()
        state = "runs"
        while state == "runs":
            state = client.ask(tmp_path, "command", line="flows")["data"]["flows"][0]["state"]
        assert state == "it was stopped"
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("command")]


def ended(client, line):
    with contextlib.suppress(RpcError):
        client.call("command", line=line)


def test_flows_show_what_arrived_while_a_stream_goes_on_and_how_far_a_failed_write_came(session):
    told(session, "traffic stream from=h1 to=h2 duration=10s name=stream")
    told(session, "traffic write from=h2 to=h1 size=64MiB name=write")
    told(session, "wait 500ms")
    stream, write = told(session, "flows")["flows"]
    assert stream["bytes"] > 100_000
    assert stream["goodput"] == pytest.approx(stream["bytes"] / 0.5, rel=0.05)
    assert 0 < write["done"] < 0.2
    told(session, "stop write")
    failed = told(session, "flows")["flows"][1]
    assert failed["state"] == "it was stopped"
    assert failed["done"] == pytest.approx(failed["bytes"] / (64 << 20), rel=1e-3)
    assert 0 < failed["done"] < 0.2


def test_requests_may_be_ended_before_their_answers_are_read(session, tmp_path):
    with service.served(session, tmp_path), socket.socket(socket.AF_UNIX) as other:
        other.connect(str(tmp_path / client.SOCKET))
        other.sendall(b'{"id": 1, "op": "command", "line": "wait 50ms"}\n')
        other.shutdown(socket.SHUT_WR)  # as nc does at the end of its input
        assert json.loads(other.makefile().readline())["ok"]["data"] == {"flows": {}}


def program(place: Path) -> list[str]:
    """The command, for which no lab is on the wire, whatever else this machine does."""
    code = (
        "import pathlib, mrclab.topo.linux.paths as paths;"
        f"paths.BASE = pathlib.Path({str(place / 'wire')!r}); paths.RUN_DIR = paths.BASE / 'lab';"
        "from mrclab.lab.command.entry import main; main()"
    )
    return [sys.executable, "-c", code]


def mrclab(*arguments: str, place: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(place), "COLUMNS": "120"}
    argv = [*program(place), *arguments]
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=240, check=False, env=environment)


@contextlib.contextmanager
def lab_up(place: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A lab in virtual time whose prompt reads a pipe and has answered once; ended however the test goes."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(place)}
    argv = [*program(place), *options, "up", "--world", "sim"]
    up = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert up.stdin is not None
    assert up.stdout is not None
    watchdog = threading.Timer(280, up.kill)
    watchdog.start()
    try:
        up.stdin.write("nodes\n")
        up.stdin.flush()
        while not up.stdout.readline().startswith("hosts h1"):
            assert up.poll() is None
        yield up
    finally:
        watchdog.cancel()
        up.kill()
        up.wait()


@pytest.mark.once
def test_a_lab_in_virtual_time_keeps_to_the_run_directory_that_is_given(tmp_path):
    own = tmp_path / "base" / "lab"
    own.parent.mkdir()
    with lab_up(tmp_path, "--run-dir", str(own)) as up:
        assert "switches  16 of 16 ready" in mrclab("--run-dir", str(own), "status", place=tmp_path).stdout
        assert "intact" in mrclab("--run-dir", str(own), "send", "h1", "h3", __file__, place=tmp_path).stdout
        assert "no lab" in mrclab("status", place=tmp_path).stderr.lower()
        up.communicate("quit\n", timeout=240)
    assert not (own / "fabric.yaml").exists()


@pytest.mark.once
def test_up_takes_words_from_a_pipe_and_other_terminals_and_leaves_nothing(tmp_path):
    with lab_up(tmp_path) as up:
        assert "hosts h1 h2 h3 h4" in mrclab("nodes", place=tmp_path).stdout
        told = mrclab("paths", "h1", "h3", "--json", place=tmp_path)
        assert len(json.loads(told.stdout)["paths"]) == 8
        assert "switches  16 of 16 ready" in mrclab("status", place=tmp_path).stdout
        assert "intact" in mrclab("send", "h1", "h3", __file__, place=tmp_path).stdout
        refused = mrclab("deny", "t1-p9-1", place=tmp_path)
        assert (refused.returncode, "there are 't1-p1-1' to 't1-p4-2'" in refused.stderr) == (1, True)
        for word, said in (("p4sh", "virtual time has no processes"), ("capture", "mrclab do capture FILE")):
            there = mrclab(word, "t1-p1-1", place=tmp_path)
            assert (there.returncode, said in there.stderr.replace("\n", " ")) == (2, True)
        assert "h1-p1" in mrclab("do", "down", "h1-p1", place=tmp_path).stdout
        second = mrclab("up", "--world", "sim", place=tmp_path)
        assert (second.returncode, "in another terminal" in second.stderr) == (2, True)
        said, _ = up.communicate("faults\nquit\n", timeout=240)
    assert "cut-h1-p1-t0-p1-1: h1-p1/t0-p1-1 down" in said
    assert up.returncode == 0
    assert list((tmp_path / "mrclab").rglob("*.sock")) == []
    gone = mrclab("nodes", place=tmp_path)
    assert (gone.returncode, "no lab is running" in gone.stderr) == (2, True)


def test_a_script_file_that_fails_gives_the_exit_status(tmp_path):
    script = tmp_path / "script"
    script.write_text("send h1 h3 64KiB\npaths h1\n")
    done = mrclab("up", "--world", "sim", "--script", str(script), place=tmp_path)
    assert done.returncode == 2
    assert "intact" in done.stdout
    assert "line 2 of the script, 'paths h1': usage: paths HOST HOST" in done.stderr
