"""The script that reads a history into pandas draws a run, and its figures are those of the run's own report."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario

pytest.importorskip("pandas")
SCRIPT = Path(__file__).parents[2] / "docs" / "history_pandas.py"
SCENARIO = """
name: short
world: sim
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 1000, delay: 1ms}}
traffic: [{name: file, kind: write, from: h1, to: h2, size: 2 MiB}]
faults: [{name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 30% of file, until: 60% of file}]
"""


def test_it_draws_a_run_and_finds_what_happened(tmp_path, monkeypatch):
    loaded = scenario.loads(SCENARIO)
    outcome = runner.run_scenario(loaded, tmp_path, lambda *_: None, lambda _: None, report=False)
    picture = tmp_path / "run.png"
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(outcome.directory), str(picture)])
    monkeypatch.setenv("MPLBACKEND", "Agg")
    made = runpy.run_path(str(SCRIPT))
    assert picture.stat().st_size > 5000
    assert made["by_plane"].iloc[-1].sum() == 2 << 20
    assert list(made["faults"]["kind"]) == ["fault.begin", "fault.end"]
    lost = [json.loads(line) for line in (outcome.directory / "history.jsonl").read_text().splitlines()]
    assert len(made["losses"]) == sum(record["kind"] == "packet.lost" for record in lost) > 0
    assert "ASSUMED_BAD" in set(made["changes"]["new"])
