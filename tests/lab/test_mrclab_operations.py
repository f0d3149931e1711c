"""The operator's commands against a lab that another process holds: what they say, what they do, what they refuse."""

import json
import os
from pathlib import Path

import pytest
from bmv2 import TARGETS
from mrclab_command import Command
from topo_helpers import run_dir

from mrclab.lab.command.live import p4sh
from mrclab.lab.prompt.remote.client import NO_LAB
from mrclab.lab.run.wire.attach import attach
from mrclab.topo.config.nodeconfig import load
from mrclab.topo.linux import state
from mrclab.topo.process import realtime

FABRIC = """\
name: operations
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, path_mtu: 1024}
mapper: {cycle: 200ms}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 KiB}
"""


@pytest.fixture(scope="module", params=TARGETS)
def up(request, tmp_path_factory):
    """A lab with Clustermapper that `mrclab up` holds in a process of its own."""
    command = Command(run_dir("-ops"))
    scenario = tmp_path_factory.mktemp("operations") / "operations.yaml"
    scenario.write_text(FABRIC)
    process = command.start("up", scenario, "--target", request.param)
    try:
        command.wait_until(lambda: command.recorded("lab.up"), process)
        yield command
        said = process.communicate("status\ndeny t1-p1-1\nundeny t1-p1-1\ndeny\nprecheck\nquit\n", timeout=60)[0]
        assert "switches  8 of 8 ready" in said
        assert "t1-p1-1 is denied; node configs of version" in said
        assert "usage: deny WHAT" in said
        assert "a job may start" in said
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
        state.clean(command.run_dir.parent)


def told(command, *words, status=0):
    """Return a command's JSON output."""
    done = command.run(*words, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def refused(command, *words):
    """The one sentence with which a command refuses."""
    done = command.run(*words)
    assert done.returncode in {1, 2}
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line


needs_root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]


class TestOnALabThatIsUp:
    pytestmark = needs_root

    def test_the_controller_comes_behind_switches_and_hosts_and_before_all_else(self, up):
        def priorities(pid):
            return {os.sched_getparam(int(task.name)).sched_priority for task in Path(f"/proc/{pid}/task").iterdir()}

        if os.sched_getscheduler(up.agent("h1")) == os.SCHED_OTHER:
            pytest.skip("the kernel lets nobody go ahead of ordinary work here")
        processes = [*up.pids("controller")[-1:], *up.pids("t0-p1-1")[-1:], up.agent("h1")]
        assert [priorities(pid) for pid in processes] == [
            {realtime.CONTROL_PLANE},
            {realtime.DATA_PLANE},
            {realtime.DATA_PLANE},
        ]

    def test_status_says_how_switches_cables_and_agents_are(self, up):
        assert told(up, "status")["state"] == "verified"
        lines = up.run("status").stdout.splitlines()
        assert lines[0].startswith("fabric    verified in ")
        assert lines[1:5] == [
            "switches  8 of 8 ready",
            "cables    12 of 12 verified both ways",
            "entries   as they should be",
            "agents    2 of 2 there, node configs of version 1",
        ]

    def test_the_map_shows_every_cable(self, up):
        answer = told(up, "map")
        assert list(answer["links"]) == [link.name for link in attach(up.run_dir).fabric.links]
        said = up.run("map").stdout
        assert said.startswith("nothing is at fault")
        assert "[green]" not in said
        assert "t0-p2-2/t1-p2-1" in said

    def test_a_path_is_denied_in_the_files_and_allowed_again(self, up):
        done = up.run("deny", "h1", "to", "h2", "p2", "u1", "--reason", "smells")
        assert done.stdout.startswith("h1>h2 p2 u1 is denied; node configs of version ")
        lab = attach(up.run_dir)
        assert load(up.run_dir / "node" / "h1.json").denied(2, 1, lab.fabric.host("h2").address)
        assert lab.call("h1", "hello")["config_version"] == told(up, "status")["version"]
        assert "smells" in up.run("status").stdout
        assert "was denied already; nothing changed" in up.run("deny", "h1 to h2 p2 u1").stdout
        assert "is allowed again" in up.run("undeny", "h1 to h2 p2 u1").stdout
        assert told(up, "undeny", "h1 to h2 p2 u1")["changed"] is False
        assert told(up, "status")["denied"] == []

    def test_a_t1_is_drained_and_comes_back(self, up):
        assert told(up, "drain", "t1-p1-2")["drained"]
        assert "t1-p1-2" in up.run("precheck").stdout
        assert told(up, "precheck", status=1)["ok"] is False
        assert up.run("undrain", "t1-p1-2").stdout.startswith("t1-p1-2 carries traffic again after ")
        assert up.run("precheck").stdout.splitlines()[-1] == "a job may start"

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (
                ("deny", "t1-p1-9"),
                "mrclab: no switch, cable or plane is called 't1-p1-9'; there are 't1-p1-1' to 't1-p",
            ),
            (
                ("drain", "h1-p1"),
                "mrclab: h1-p1/t0-p1-1 is not a switch; only a T0 or T1 can be drained, deny anything else",
            ),
            (("undrain", "t1-p1-1"), "mrclab: t1-p1-1 is not drained; drain it first"),
            (("p4sh", "t0-p1-8"), "mrclab: no switch is called 't0-p1-8'; there are 't0-p1-1' to 't0-p"),
        ],
    )
    def test_what_cannot_be_done_is_one_sentence(self, up, words, sentence):
        assert refused(up, *words).startswith(sentence)

    def test_what_would_cut_hosts_off_is_refused(self, up):
        assert told(up, "deny", "plane", "1")["changed"]
        assert refused(up, "deny", "plane 2").startswith("mrclab: denying plane 2 would leave no path from h1 to h2")
        assert told(up, "undeny", "plane", "1")["changed"]

    @pytest.mark.skipif(not p4sh.PYTHON.exists(), reason="no .venv-p4sh: `make setup` makes it")
    def test_p4runtime_shell_reads_from_a_pipe_and_may_not_write(self, up):
        typed = (
            'table_entry["MrcIngress.my_usid"].read(lambda e: print("entry", e.action.action_name))\n'
            'te = table_entry["MrcIngress.my_usid"](action="MrcIngress.shift_usid")\n'
            'te.match["locator_usid"] = "1"\n'
            "te.insert()\n"
        )
        done = up.run("p4sh", "t0-p1-2", input=typed)
        assert "entry MrcIngress.shift_usid" in done.stdout
        assert "PERMISSION_DENIED" in done.stdout + done.stderr
        assert told(up, "precheck")["ok"]


@pytest.mark.parametrize("words", [("status",), ("map",), ("deny", "t1-p1-1"), ("precheck",), ("p4sh", "t0-p1-1")])
def test_without_a_lab_there_is_one_sentence_with_the_remedy(words):
    command = Command(run_dir("-nothing"))
    expected = f"mrclab: {NO_LAB}"
    assert refused(command, *words) == expected


def test_help_names_every_operation():
    command = Command(run_dir("-nothing"))
    said = command.run("--help").stdout
    for word in ("status", "map", "deny", "undeny", "drain", "undrain", "precheck", "p4sh", "survey"):
        assert f" {word} " in said
