"""Refusals of `mrclab`: one clear sentence, an exit status, and nothing started."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from mrclab_command import Command, small_scenario
from topo_helpers import run_dir


@pytest.fixture
def mrclab():
    return Command(run_dir("-refusals"))


def refused(done, said, status=2):
    assert said in done.stderr
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("lingr: 3s\n", "small.yaml:6: lingr: no such field; did you mean 'linger'?"),
        (
            "faults: [{name: x, kind: link_down, link: t0-p9-1/t1-p9-1, at: 1s}]\n",
            "no cable is called 't0-p9-1/t1-p9-1'",
        ),
        ("expect: [{kind: integrity, traffic: fiel}]\n", "no traffic is named 'fiel'; did you mean 'file'?"),
    ],
)
def test_a_mistake_in_a_scenario_is_one_line_and_starts_nothing(mrclab, tmp_path, rest, said):
    lines = refused(mrclab.run("run", small_scenario(tmp_path, "1", rest)), said)
    assert len(lines) == 1
    assert not mrclab.run_dir.parent.exists()


def test_a_fabric_without_planes_and_a_host_too_many_are_said_together(mrclab, tmp_path):
    path = small_scenario(tmp_path, "1")
    path.write_text(path.read_text().replace("planes: 2", "planes: 0").replace("name: small", "name: Small"))
    lines = refused(mrclab.run("run", path), "fabric.planes: this must be at least 1 (got 0)")
    assert len(lines) == 2


def test_a_file_that_is_not_there_is_said(mrclab, tmp_path):
    refused(mrclab.run("run", tmp_path / "none.yaml"), "no scenario ")
    refused(mrclab.run("report", tmp_path), "is not the result directory")


@pytest.mark.skipif(os.geteuid() != 0, reason="without root another sentence comes first")
@pytest.mark.root
def test_a_place_where_no_result_can_go_is_said_before_anything_starts(mrclab, tmp_path):
    scenario = small_scenario(tmp_path, "1")
    refused(
        mrclab.run("run", scenario, "--results", scenario / "x"), f"{scenario} is not a directory that can be written"
    )
    refused(mrclab.run("run", scenario, "--target", "bmv3"), "'bmv3' is not one of soft, bmv2")
    refused(mrclab.run("frobnicate"), "No such command 'frobnicate'")
    assert not mrclab.run_dir.parent.exists()


def test_a_plan_needs_no_root_and_starts_nothing(mrclab, tmp_path):
    done = mrclab.run("run", "--dry-run", small_scenario(tmp_path, "1"))
    assert done.returncode == 0
    for text in (
        "4 switches, 2 hosts, 6 cables",
        "t1-p2-1",
        "fcbb:bb00:2101:3102::",
        "1 byte as one RDMA write",
        "file/h1>h2",
    ):
        assert text in done.stdout
    assert "usid_fib" in mrclab.run("plan", "--entries", small_scenario(tmp_path, "1")).stdout
    assert not mrclab.run_dir.parent.exists()


def test_doctor_names_back_ends_and_remedies(mrclab):
    told = json.loads(mrclab.run("doctor", "--json").stdout)
    assert told["backends"]["switches"] in {"soft", "bmv2"}
    assert {check["name"] for check in told["checks"]} >= {
        "Python",
        "root",
        "Mininet",
        "nftables netdev",
        "BMv2",
        "netem",
    }
    assert all(check["ok"] or check["remedy"] for check in told["checks"])


@pytest.mark.parametrize("words", [("up",), ("run", "SCENARIO"), ("send", "h1", "h2", "SCENARIO")])
def test_without_root_it_says_so(words, tmp_path):
    command = Command(tmp_path / "base" / "lab")
    scenario = small_scenario(tmp_path, "1")
    argv = [str(scenario) if word == "SCENARIO" else word for word in words]
    if os.geteuid() == 0:
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        done = command.run_unprivileged(*argv)
    else:
        done = command.run(*argv)
    lines = refused(done, "the lab needs root for network namespaces; run the same command with sudo")
    assert len(lines) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="without root another sentence comes first")
@pytest.mark.root
def test_without_mininet_it_says_so(tmp_path):
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name != "mininet":
            (libraries / entry.name).symlink_to(entry)
    code = "from mrclab.lab.command.entry import main; main()"
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(libraries)])
    argv = [sys.executable, "-S", "-c", code, "--run-dir", str(tmp_path / "base" / "lab"), "up"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    refused(done, "Mininet is not installed; run `sudo make setup`")
    assert not (tmp_path / "base").exists()
