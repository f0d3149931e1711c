"""`mrclab suite`, and `run` with variants, on a real fabric: interrupted in the middle, and on BMv2."""

import json
import os
import socket
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bmv2 import needs_bmv2
from mrclab_command import mrclab, small_scenario

from mrclab.lab.scenario import scenario

__all__ = ["mrclab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

EXPECT = "expect:\n  - {kind: integrity}\n"


def two_scenarios(directory):
    """A run that is soon over, and one that goes on until somebody ends it; in this order."""
    paths = []
    for name, size in (("first", "64 KiB"), ("second", "64 MiB")):
        text = small_scenario(directory, size, EXPECT).read_text()
        paths.append(directory / f"{name}.yaml")
        paths[-1].write_text(text.replace("name: small", f"name: {name}"))
    return paths


def two_variants(directory):
    """The same two runs as variants of one scenario."""
    path = small_scenario(directory, "64 KiB", EXPECT)
    longer = "  - {name: second, set: {traffic.file.size: 64 MiB}}\n"
    path.write_text(f"{path.read_text()}variants:\n  - {{name: first, set: {{}}}}\n{longer}")
    return [path]


@pytest.mark.parametrize(("command", "scenarios"), [("suite", two_scenarios), ("run", two_variants)])
def test_ctrl_c_in_the_second_run_leaves_the_report_of_the_first_and_nothing_else(mrclab, tmp_path, command, scenarios):
    paths, results = scenarios(tmp_path), tmp_path / "results"
    process = mrclab.start(command, *paths, "--results", results)
    ended = "*/runs/*first-*/result.json"
    said = mrclab.interrupt(process, lambda: bool(list(results.glob(ended))) and mrclab.recorded("traffic.start"))
    fabric = scenario.load(paths[-1]).fabric
    ours = {end.interface for link in fabric.links for end in link.ends}
    assert not ours & {name for _, name in socket.if_nameindex()}
    (suite,) = results.iterdir()
    assert f"Report of the runs that ended: {suite}/index.html" in said
    check_report(suite)


def check_report(suite):
    """The first run in each of the three, with its own report; of the second only what it did until then is kept."""
    (run,) = json.loads((suite / "suite.json").read_text())["runs"]
    assert "first" in (run["name"], run["variant"])
    assert run["state"] == "passed"
    kept = sorted(path.name for path in (suite / "runs").iterdir())
    assert kept[0] == Path(run["directory"]).name
    assert len(kept) <= 2
    assert (suite / run["directory"] / "report.html").exists()
    junit = ElementTree.parse(suite / "junit.xml").getroot()
    names = " ".join(case.get("classname", "") + case.get("name", "") for case in junit.iter("testcase"))
    page = (suite / "index.html").read_text()
    for text in (names, page):
        assert "first" in text
        assert "second" not in text


@needs_bmv2
def test_a_suite_runs_every_seed_on_bmv2(mrclab, tmp_path):
    path = small_scenario(tmp_path, "64 KiB", EXPECT)
    done = mrclab.run(
        "suite", path, "--repeat", "2", "--target", "bmv2", "--again", "1", "--results", tmp_path / "results"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (suite,) = (tmp_path / "results").iterdir()
    told = json.loads((suite / "suite.json").read_text())
    outcomes = [(run["name"], run["seed"], run["state"]) for run in told["runs"]]
    assert outcomes == [("small", 1, "passed"), ("small", 2, "passed")]
    for run in told["runs"]:
        facts = json.loads((suite / run["directory"] / "run.json").read_text())
        assert facts["target"] == "bmv2"
    (figure,) = told["figures"]
    assert (figure["passed"], figure["runs"]) == (2, 2)
    assert not mrclab.run_dir.parent.exists()
