"""`mrclab` ends cleanly whatever ends it: a signal at any moment, kill -9 and `clean`, the death of an agent."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mrclab_command import mrclab, small_scenario

from mrclab.lab import history
from mrclab.lab.errors import Interrupted
from mrclab.lab.report import results
from mrclab.lab.run import runner
from mrclab.lab.scenario.scenario import load

__all__ = ["mrclab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


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
    assert (tmp_path / "results").exists() == (moment == "traffic flows")  # what was done until then is kept


def test_a_signal_while_the_lab_is_taken_down_waits_until_all_of_the_run_is_kept(mrclab, tmp_path, monkeypatch):
    collect = results.collect

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return collect(*arguments)

    monkeypatch.setattr(results, "collect", interrupted)
    said = []
    with pytest.raises(Interrupted, match="the lab is down"):
        runner.run_scenario(
            load(small_scenario(tmp_path, "64 KiB")), tmp_path / "kept", lambda *_: None, said.append, "soft",
            mrclab.run_dir,
        )  # fmt: skip
    (directory,) = (tmp_path / "kept").iterdir()
    assert f"what was done until then is in {directory}" in said
    assert {"run.json", "report.html"} <= {path.name for path in directory.iterdir()}
    assert not mrclab.run_dir.parent.exists()


def test_clean_removes_what_a_killed_lab_left(mrclab, tmp_path):
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB"), "--results", tmp_path / "results")
    mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
    process.kill()
    process.communicate()
    assert mrclab.remains() != []
    place = {**os.environ, "TMPDIR": str(tmp_path)}
    done = mrclab.run("clean", env=place)
    assert done.returncode == 0
    assert "removed process" in done.stdout
    assert mrclab.remains() == []
    (kept,) = tmp_path.glob("mrclab-killed-*")
    assert f"kept in {kept})" in done.stdout
    assert (kept / "history" / "lab.jsonl").stat().st_size
    assert mrclab.run("clean", env=place).stdout == "nothing to clean\n"


def test_an_agent_that_dies_ends_the_run_with_a_report_that_names_it(mrclab, tmp_path):
    rest = "expect:\n  - {kind: health}\n"
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB", rest), "--results", tmp_path / "results")
    try:
        mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
        os.kill(mrclab.agent("h2"), signal.SIGKILL)
        shown, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "the agent of h2 was killed by SIGKILL: its last output was" in shown + said
    (result,) = (tmp_path / "results").iterdir()
    told = json.loads((result / "result.json").read_text())["verdicts"]
    assert [(verdict["kind"], verdict["ok"]) for verdict in told] == [("run", False), ("health", False)]
    assert "h2 (was killed by SIGKILL) died" in told[1]["observed"]
    assert not mrclab.run_dir.parent.exists()


@pytest.mark.parametrize(
    ("victim", "said"),
    [("t0-p1-1", "switch t0-p1-1 was killed by SIGKILL"), ("controller", "the controller was killed by SIGKILL")],
)
@pytest.mark.parametrize("moment", ["it is brought up", "traffic flows"])
def test_a_process_that_dies_unasked_ends_the_run_with_its_name_its_end_and_its_log(
    mrclab, tmp_path, victim, said, moment
):
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB"), "--results", tmp_path / "results")
    happened = {
        "it is brought up": lambda: mrclab.logs("controller") and mrclab.pids(victim),
        "traffic flows": lambda: mrclab.recorded("traffic.start"),
    }
    try:
        mrclab.wait_until(happened[moment], process)
        os.kill(mrclab.pids(victim)[-1], signal.SIGKILL)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert said in told
    assert f"its log is log/{victim}.log" in told
    (result,) = (tmp_path / "results").iterdir()
    assert (result / "log" / f"{victim}.log").exists()
    assert mrclab.remains() == []


def test_a_run_directory_that_is_removed_ends_the_run_and_costs_no_record_of_it(mrclab, tmp_path):
    process = mrclab.start("run", small_scenario(tmp_path, "16 MiB"), "--results", tmp_path / "results")
    try:
        mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
        shutil.rmtree(mrclab.run_dir.parent)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    assert f"the run directory {mrclab.run_dir} was removed while the lab ran" in told
    assert "Traceback" not in told
    (result,) = (tmp_path / "results").iterdir()
    found = history.load(result / "history.jsonl")
    assert list(found.of("traffic.start"))
    assert list(found.of("agent.start"))
    assert mrclab.remains() == []


@pytest.mark.parametrize("place", ["run directory", "results"])
def test_a_disk_that_is_full_is_said_and_what_was_measured_survives(mrclab, tmp_path, place):
    small = mrclab.run_dir.parent if place == "run directory" else tmp_path / "results"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", small], check=True)
    try:
        process = mrclab.start("run", small_scenario(tmp_path, "2 MiB"), "--results", tmp_path / "results")
        mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
        with contextlib.suppress(OSError), (small / "filler").open("wb") as filler:
            while True:
                filler.write(bytes(1 << 16))
        _, told = process.communicate(timeout=60)
        process.kill()
        assert "Traceback" not in told
        if place == "run directory":
            assert process.returncode == 1
            full = f"the file system of the run directory {mrclab.run_dir} is full; free space there"
            assert full in told or "No space left on device" in told
            assert len(list((tmp_path / "results").iterdir())) == 1
        else:
            assert process.returncode in {0, 3}  # the machine may be too busy for a result
            kept = Path(told.split("they are in ")[1].split()[0])
            assert (kept / "report.html").exists()
            shutil.rmtree(kept.parent)
        assert [left for left in mrclab.remains() if left != str(small)] == []
    finally:
        subprocess.run(["umount", "-l", small], check=True)
        if place == "run directory":
            shutil.rmtree(small, ignore_errors=True)


WITH_BMV2 = pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="needs BMv2")
STOPPED = """\
name: stopped
fabric: {planes: 2, t0s: 1, t1s: 1, hosts_per_t0: 2, path_mtu: 1024, link: {rate_pps: 300, delay: 5ms}}
traffic:
  - {name: file, kind: stream, from: h1, to: h2, duration: 4s}
faults:
  - {name: cut, kind: link_down, link: h1-p2, at: 1s, until: 3s}
"""


@pytest.mark.parametrize(
    ("victim", "reason", "target"),
    [
        ("the lab", "the lab itself was stopped for", "soft"),
        ("t0-p1-1", "a signal stopped t0-p1-1", "soft"),
        pytest.param("t0-p1-1", "a signal stopped t0-p1-1", "bmv2", marks=WITH_BMV2),
    ],
)
def test_who_stands_still_while_a_fault_is_due_makes_the_run_invalid(mrclab, tmp_path, victim, reason, target):
    (tmp_path / "stopped.yaml").write_text(STOPPED)
    words = ["--results", tmp_path / "results", "--target", target]
    process = mrclab.start("run", tmp_path / "stopped.yaml", *words)
    try:
        mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
        pid = process.pid if victim == "the lab" else mrclab.pids(victim)[-1]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)  # over the moment at which the cable is cut
        os.kill(pid, signal.SIGCONT)
        shown, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 3, told
    assert reason in shown
    assert ("--slower" in told) == ("signal stopped" not in reason)  # what a machine is asked is not why


SPINNER = """
import os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""


@WITH_BMV2
def test_a_bmv2_that_waits_for_a_cpu_makes_the_run_invalid_though_it_cannot_tell(mrclab, tmp_path):
    (tmp_path / "starved.yaml").write_text(STOPPED)
    words = ["--results", tmp_path / "results", "--target", "bmv2"]
    process = mrclab.start("run", tmp_path / "starved.yaml", *words)
    try:
        mrclab.wait_until(lambda: mrclab.recorded("traffic.start"), process)
        switch, cpu = mrclab.pids("t0-p1-1")[-1], min(os.sched_getaffinity(0))
        for thread in Path(f"/proc/{switch}/task").iterdir():
            os.sched_setaffinity(int(thread.name), [cpu])
        spun = subprocess.run([sys.executable, "-c", SPINNER, str(cpu), "0.4"], capture_output=True, check=False)
        if b"PermissionError" in spun.stderr:
            pytest.skip("the kernel lets nobody go ahead of ordinary work here")
        shown, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 3, told
    # The one that waited longest is named: t0-p1-1, or another switch that the lab keeps on that CPU.
    assert re.search(r"switch t[01]-p\d-\d was \d+ ms late at", " ".join(shown.split())), shown
