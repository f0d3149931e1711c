"""`mrclab` ends cleanly whatever ends it: a signal at any moment, kill -9 and `clean`, the death of an agent."""

import json
import os
import signal

import pytest
from mrclab_command import Command, small_scenario
from topo_helpers import run_dir

from mrclab.topo.linux import state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.fixture
def mrclab(request):
    """The command, with a run directory that is cleaned up whatever the test did."""
    command = Command(run_dir(f"-{abs(hash(request.node.name)) % 10000}"))
    yield command
    state.clean(command.run_dir.parent)


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "claimed"),
        (signal.SIGINT, "controller starts"),
        (signal.SIGTERM, "agents start"),
        (signal.SIGINT, "traffic flows"),
    ],
)
def test_a_signal_at_any_moment_leaves_nothing(mrclab, tmp_path, moment, number):
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB"), "--results", tmp_path / "results")
    happened = {
        "claimed": mrclab.claimed,
        "controller starts": lambda: mrclab.logs("controller"),
        "agents start": lambda: mrclab.logs("h1"),
        "traffic flows": lambda: mrclab.recorded("traffic.start"),
    }
    mrclab.interrupt(process, happened[moment], number)
    assert not (tmp_path / "results").exists()


def test_clean_removes_what_a_killed_lab_left(mrclab, tmp_path):
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB"), "--results", tmp_path / "results")
    mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
    token = mrclab.token()
    process.kill()
    process.communicate()
    assert mrclab.remains(token) != []
    done = mrclab.run("clean")
    assert done.returncode == 0
    assert "removed process" in done.stdout
    assert mrclab.remains(token) == []
    assert mrclab.run("clean").stdout == "nothing to clean\n"


def test_an_agent_that_dies_ends_the_run_with_a_report_that_names_it(mrclab, tmp_path):
    rest = "expect:\n  - {kind: health}\n"
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB", rest), "--results", tmp_path / "results")
    try:
        mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
        os.kill(mrclab.agent("h2"), signal.SIGKILL)
        shown, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "the agent of h2 ended" in shown
    (result,) = (tmp_path / "results").iterdir()
    told = json.loads((result / "result.json").read_text())["verdicts"]
    assert [(verdict["kind"], verdict["ok"]) for verdict in told] == [("run", False), ("health", False)]
    assert "h2 (ended) died" in told[1]["saw"]
    assert not mrclab.run_dir.parent.exists()
