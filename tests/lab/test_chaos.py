"""A short storm of random faults on either target: bytes, QPs and processes survive it, and nothing of it is left."""

import json
import os
from pathlib import Path

import pytest
from bmv2 import TARGETS
from mrclab_command import Command
from topo_helpers import run_dir

from mrclab.lab import history
from mrclab.topo.linux import state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "chaos.yaml"
BRIEF = """
  - name: brief
    set:
      timeout: 60s
      linger: 0s
      fabric.planes: 3
      fabric.hosts_per_t0: 1
      fabric.link.rate_pps: 100
      traffic.all.duration: 12s
      faults.storm.at: 500ms
      faults.storm.duration: 11s
      faults.storm.every: 400ms
      faults.storm.longest: 1500ms
      faults.storm.settle: 500ms
      expect: [{kind: integrity, traffic: all}, {kind: qp_errors, at_most: 0}, {kind: retransmitted}]
"""


@pytest.mark.parametrize("target", TARGETS)
def test_every_byte_survives_a_storm_and_everything_is_healed(target, tmp_path):
    (tmp_path / "chaos.yaml").write_text(SCENARIO.read_text().rstrip() + BRIEF)
    command = Command(run_dir(f"-chaos-{target}"))
    words = ("--variant", "brief", "--target", target, "--results", tmp_path / "results")
    try:
        done = command.run("run", tmp_path / "chaos.yaml", *words)
    finally:
        state.clean(command.run_dir.parent)
    (result,) = (tmp_path / "results").iterdir()
    verdicts = json.loads((result / "result.json").read_text())["verdicts"]
    assert [(verdict["kind"], verdict["ok"]) for verdict in verdicts] == [
        ("integrity", True),
        ("qp_errors", True),
        ("retransmitted", True),
    ], done.stderr
    said = history.load(result / "history.jsonl")
    begun = [record["fault"] for record in said.of("fault.begin")]
    assert len(begun) > 8
    assert sorted(begun) == sorted(record["fault"] for record in said.of("fault.end"))
    assert list(said.of("process.died")) == []
    (cleared,) = said.of("faults.cleared")
    assert (cleared["verified"], cleared["problems"], cleared["entries"]) == (True, [], [])
