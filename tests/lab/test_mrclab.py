"""`mrclab` on a small real fabric: runs, sends, ends under signals, refuses what it cannot do, and leaves nothing."""

import json
import os

import pytest
from mrclab_command import Command, mrclab, small_scenario
from topo_helpers import run_dir

from mrclab.lab import history
from mrclab.topo.linux import state

__all__ = ["mrclab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

ACROSS = """\
name: across
max_wait: 1s
fabric: {planes: 2, t0s: 2, t1s: 1, hosts_per_t0: 1, path_mtu: 1024, link: {rate_pps: 500, delay: 5ms}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-1, at: 30% of file, until: 60% of file}
linger: 30s
expect:
  - {kind: integrity, traffic: file}
  - {kind: qp_errors, at_most: 0}
  - {kind: retransmitted}
  - {kind: ev_state, fault: cut, state: ASSUMED_BAD}
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """A lab that is up, and the process that holds it."""
    command = Command(run_dir("-up"))
    process = command.start("up", small_scenario(tmp_path_factory.mktemp("up"), "1"))
    try:
        command.wait_until(lambda: command.recorded("lab.up"), process)
        yield command
        process.communicate("quit\n", timeout=30)
        assert process.returncode == 0
        assert command.remains() == []
    finally:
        process.kill()
        process.communicate()
        state.clean(command.run_dir.parent)


def test_a_file_crosses_while_a_cable_is_cut_and_the_report_is_complete(mrclab, tmp_path):
    (tmp_path / "across.yaml").write_text(ACROSS)
    done = mrclab.run("run", tmp_path / "across.yaml", "--results", tmp_path / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 expectations passed" in done.stdout
    (result,) = (tmp_path / "results").iterdir()
    names = {path.name for path in result.iterdir()}
    assert names >= {"scenario.yaml", "fabric.yaml", "run.json", "history.jsonl", "result.json", "series.json"}
    assert all(r["steal"] >= 0 for r in history.load(result / "history.jsonl").of("cpu"))
    assert names >= {"report.html", "junit.xml", "goodput.png", "evs.png", "losses.png", "paths.png", "log", "node"}
    facts = json.loads((result / "result.json").read_text())["facts"]
    assert facts["faults"][0]["lost"] > 0
    assert not mrclab.run_dir.parent.exists()


TWO_CUTS = """\
faults:
  - {name: first, kind: link_down, link: h1-p2, at: 0s}
  - {name: second, kind: link_down, link: t0-p1-1/t1-p1-1, at: 20% of file}
expect:
  - {kind: goodput, window: start .. end, at_least: 150% of line}
"""


def test_an_expectation_that_does_not_hold_is_exit_status_1_and_faults_are_healed_in_reverse(mrclab, tmp_path):
    done = mrclab.run("run", small_scenario(tmp_path, "256KiB", TWO_CUTS), "--results", tmp_path / "results")
    assert done.returncode == 1
    assert "0 of 1 expectations passed" in done.stdout
    (result,) = (tmp_path / "results").iterdir()
    faults = [(r.kind, r["fault"]) for r in history.load(result / "history.jsonl").of("fault.begin", "fault.end")]
    assert faults == [
        ("fault.begin", "first"),
        ("fault.begin", "second"),
        ("fault.end", "second"),
        ("fault.end", "first"),
    ]


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 300_001])
def test_files_of_every_size_arrive_through_the_lab_that_is_up(up, tmp_path, size):
    sent, arrived = tmp_path / "sent", tmp_path / "arrived"
    sent.write_bytes(os.urandom(size))
    done = up.run("send", "h1", "h2", sent, "--output", arrived)
    assert done.returncode == 0, done.stderr
    assert arrived.read_bytes() == sent.read_bytes()
    assert not list((up.run_dir / "files").glob("*/send-*"))


def test_a_second_lab_is_refused_while_one_runs(up, tmp_path):
    done = up.run("run", small_scenario(tmp_path, "1"), "--results", tmp_path / "results")
    assert done.returncode == 2
    assert done.stderr.startswith("mrclab: a lab is running already (process ")
    assert not (tmp_path / "results").exists()
    assert "a lab is running already" in up.run("clean").stderr


def test_send_to_a_host_that_does_not_exist_is_one_sentence(up, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    done = up.run("send", "h1", "h7", tmp_path / "file")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mrclab: no host is called 'h7'; there are 'h1' to 'h")
    assert "name two hosts" in up.run("send", "h1", "h1", tmp_path / "file").stderr
    assert "there is no file" in up.run("send", "h1", "h2", tmp_path / "none").stderr


def test_the_prompt_sends_cuts_and_shows(mrclab, tmp_path):
    words = (
        "status",
        "down t1-p1-1 t0-p1-1",
        "links",
        "faults",
        "send h1 h2 /nonexistent",
        "send h1 h2 64KiB",
        "up t0-p1-1/t1-p1-1",
        "counters t0-p1-1",
        "evs h2",
        "run h1 ip -br link show h1-p2",
        "down h9-p1",
        "send h1 h2",
        "sned",
        "quit",
    )
    process = mrclab.start("up", small_scenario(tmp_path, "1"))
    try:
        shown, said = process.communicate("\n".join(words) + "\n", timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, said
    for text in (
        "4 of 4 ready",
        "6 of 6 verified both ways",
        "faults    none",
        "t0-p1-1/t1-p1-1 is down",
        "cut-t0-p1-1-t1-p1-1: t0-p1-1/t1-p1-1 down",
        "there is no file /nonexistent; name one that is there, or a size such as 16MiB",
        "64 KiB in ",
        "intact",
        "t0-p1-1/t1-p1-1 is up",
        "t0-p1-1: nothing dropped",
        "h1-p2@",
        "no cable is called 'h9-p1'; there are 'h1-p1' to 'h",
        "usage: send HOST HOST WHAT",
        "sned: no such command; did you mean send?",
    ):
        assert text in shown
    assert not mrclab.run_dir.parent.exists()
