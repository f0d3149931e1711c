"""The pytest plugin as its users have it: scenario files as tests, and the fixture `lab`, in a pytest of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bmv2 import needs_bmv2
from topo_helpers import run_dir

from mrclab.topo.linux import state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

SCENARIOS = """\
name: tiny
title: A file crosses
max_wait: 1s
fabric: {planes: 2, t0s: 1, t1s: 1, hosts_per_t0: 2, path_mtu: 1024, link: {rate_pps: 500, delay: 5ms}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 64 KiB}
expect:
  - {kind: integrity, traffic: file}
variants:
  - {name: holds}
  - {name: fails, set: {expect: [{kind: qp_errors, at_least: 1}]}}
"""

WITH_LAB = """\
import pytest


@pytest.fixture(scope="module")
def lab_options():
    link = {"rate_pps": 500, "delay": "5ms"}
    return {"fabric": {"planes": 2, "t0s": 2, "t1s": 1, "hosts_per_t0": 1, "path_mtu": 1024, "link": link}}


def test_a_file_crosses_while_a_cable_is_cut(lab):
    with lab.link("t0-p1-1", "t1-p1-1").down():
        done = lab.transfer("h1", "h2", "256 KiB")
    assert done.intact
    assert done.bytes == 256 * 1024
    assert 0 < done.rate < 2 * 500 * 1024
    nothing = lab.transfer("h1", "h2", 0)
    assert nothing.intact
    assert nothing.bytes == 0


def test_what_a_lossy_cable_costs(lab):
    with lab.link("h1-p2").loss("10%"):
        flowing = lab.start("stream", **{"from": "h1", "to": "h2"}, size="512 KiB")
        flowing.reach(0.5)
    done = flowing.wait()
    assert done.intact
    assert sum(path["lost_packets"] for path in lab.paths("h1")) > 0


def test_hosts_reduce_together(lab):
    assert lab.run("ring_all_reduce", size="64 KiB", iterations=2).intact


def test_mistakes_are_sentences(lab):
    with pytest.raises(ValueError, match="did you mean 'delay'"):
        with lab.fault("delay", link="h1-p1", dely="5ms"):
            pass
    with pytest.raises(ValueError, match="no host is called 'h7'"):
        lab.transfer("h1", "h7", "1 KiB")
"""


@pytest.fixture
def own_pytest(request, tmp_path):
    """Runs pytest in a process of its own, with a lab directory of its own."""
    place = run_dir(f"-plugin-{abs(hash(request.node.name)) % 10000}")

    def run(*words):
        argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--mrclab-run-dir", str(place)]
        argv += ["--mrclab-results", str(tmp_path / "results"), "--rootdir", str(tmp_path), *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)

    yield run
    state.clean(place.parent)


def test_each_variant_of_a_scenario_file_is_a_test_that_says_what_did_not_hold(own_pytest, tmp_path):
    (tmp_path / "tiny.yaml").write_text(SCENARIOS)
    (tmp_path / "wrong.yaml").write_text(SCENARIOS.replace("size:", "siz:"))
    done = own_pytest("--mrclab", "tiny.yaml")
    assert done.returncode == 1, done.stdout
    assert "tiny.yaml::tiny-holds PASSED" in done.stdout
    assert "tiny.yaml::tiny-fails FAILED" in done.stdout
    assert "expected ≥ 1 QPs in error" in done.stdout
    assert "observed 0" in done.stdout
    assert "1 passed" in done.stdout
    assert "1 failed" in done.stdout
    assert len(list((tmp_path / "results").glob("*/report.html"))) == 2
    wrong = own_pytest("--mrclab", "wrong.yaml")
    assert "wrong.yaml:6: traffic[1].siz: no such field; did you mean 'size'?" in wrong.stdout
    assert own_pytest("tiny.yaml").returncode == pytest.ExitCode.USAGE_ERROR  # nothing is collected unasked


def test_what_is_too_large_for_the_machine_is_refused_before_it_starts(own_pytest, tmp_path):
    huge = "{planes: 1, t0s: 200, t1s: 1, hosts_per_t0: 90}"
    (tmp_path / "huge.yaml").write_text(f"name: huge\nfabric: {huge}\n" + SCENARIOS[SCENARIOS.index("traffic:") :])
    (tmp_path / "test_huge.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def lab_options():\n"
        "    return {'fabric': {'planes': 1, 't0s': 200, 't1s': 1, 'hosts_per_t0': 90}}\n"
        "def test_nothing(lab):\n"
        "    pass\n"
    )
    done = own_pytest("--mrclab", "huge.yaml", "test_huge.py", "-k", "not fails")
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("201 switches and 18000 hosts need") >= 2
    assert done.stdout.count("; --mrclab-force starts it even so") >= 2


def test_options_of_the_fixture_and_of_the_command_line_are_refused_in_a_sentence(own_pytest, tmp_path):
    options = "import pytest\n@pytest.fixture(scope='module')\ndef lab_options():\n    return {'wrld': 'sim'}\n"
    (tmp_path / "test_wrong.py").write_text(f"{options}def test_nothing(lab):\n    pass\n")
    done = own_pytest("test_wrong.py")
    assert "wrld: no such field; did you mean 'world'?" in done.stdout
    assert "pytest_plugin.py" not in done.stdout
    assert "invalid choice: 'sfot'" in own_pytest("--mrclab-target", "sfot").stderr
    (tmp_path / "tiny.yaml").write_text(SCENARIOS.replace("rate_pps: 500, delay: 5ms", "rate: 100 Gb/s, delay: 600ns"))
    fast = own_pytest("--mrclab", "tiny.yaml", "-k", "holds")
    assert "that one cable of the wire carries; lower it, or run it with --mrclab-world sim" in fast.stdout


@needs_bmv2
def test_scenario_files_and_the_fixture_run_on_the_target_asked_for(own_pytest, tmp_path):
    (tmp_path / "tiny.yaml").write_text(SCENARIOS)
    (tmp_path / "test_target.py").write_text(
        "def test_a_file_crosses(lab):\n"
        "    assert lab.world.emulation.target.name == 'bmv2'\n"
        "    assert lab.transfer('h1', 'h2', '64 KiB').intact\n"
    )
    done = own_pytest("--mrclab", "--mrclab-target", "bmv2", "tiny.yaml", "test_target.py", "-k", "not tiny-fails")
    assert done.returncode == 0, done.stdout
    assert "tiny.yaml::tiny-holds PASSED" in done.stdout
    assert "2 passed" in done.stdout
    (run,) = (tmp_path / "results").glob("*/run.json")
    assert json.loads(run.read_text())["target"] == "bmv2"


def test_the_example_of_the_documentation_runs(own_pytest, tmp_path):
    code = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text().split("```python\n")[1].split("```")[0]
    (tmp_path / "test_example.py").write_text(code)
    done = own_pytest("test_example.py")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_lab_fixture_serves_a_module(own_pytest, tmp_path):
    (tmp_path / "test_with_lab.py").write_text(WITH_LAB)
    done = own_pytest("test_with_lab.py")
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
