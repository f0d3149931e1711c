"""Runs without a history: the figures that need none are the same, and what needs one is refused by name."""

import json

import pytest

import mrclab
from mrclab.experiments.campaign import plan, work
from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.expectations import EXPECTATIONS
from mrclab.lab.report import results
from mrclab.lab.run import runner, worlds
from mrclab.lab.scenario import scenario
from mrclab.sim import world

SMALL = """\
name: small
world: sim
seed: 3
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, path_mtu: 1024}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 256 KiB}
  - {name: ping, kind: pingpong, from: h2, to: h1, size: 1 KiB, count: 5}
  - {name: ring, kind: ring_all_reduce, hosts: all, size: 64 KiB, iterations: 3, start: 25% of file}
  - {name: flows, kind: stream, from: h1, to: h2, size: 64 KiB, message: 4 KiB, start: after ring}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-1, at: 100ms, until: 300ms}
  - {name: gray, kind: loss, link: h2-p2, rate: 2%, at: 100ms, until: 900ms}
expect:
  - {kind: integrity}
  - {kind: qp_errors, at_most: 0}
  - {kind: health}
  - {kind: completion, name: early, traffic: flows, window: cut .. end, at_most: 10s}
  - {kind: completion, name: rounds, traffic: ring, of: iterations, percentile: mean, at_most: 10s}
  - {kind: latency, traffic: ping, at_most: 10s}
measure:
  - {kind: completion, name: whole, traffic: file, of: flows, percentile: 50}
  - {kind: slowdown, traffic: flows}
"""
NONE = f"history: none\n{SMALL}"


def quiet(*_arguments):
    """Nobody watches."""


def run(text, parent):
    return runner.run_scenario(scenario.loads(text), parent, quiet, quiet)


def test_figures_are_those_of_a_run_with_a_history_and_no_file_holds_one(tmp_path):
    with_one, without = run(f"report: false\n{SMALL}", tmp_path / "full"), run(NONE, tmp_path / "none")
    assert [verdict.value for verdict in without.verdicts] == [verdict.value for verdict in with_one.verdicts]
    assert without.verdicts == with_one.verdicts
    assert without.state == "passed"
    assert sorted(path.name for path in without.directory.iterdir() if path.is_file()) == [
        "fabric.yaml", "junit.xml", "result.json", "run.json", "scenario.yaml"
    ]  # fmt: skip
    told = json.loads((without.directory / "result.json").read_text(encoding="utf-8"))["facts"]
    assert "packets lost" not in told["headline"]
    assert (told["faults"], told["losses"], set(told["totals"])) == ([], [], {"rtt"})
    kinds = {record.kind for record in without.measures.history.records}
    assert kinds.isdisjoint({"sample", "depths", "ev.state", "wr.done", "packet.lost"})
    with pytest.raises(LabError, match=r"keeps no history.*--set history=full"):
        results.load(without.directory)


def test_a_campaign_without_histories_has_the_same_rows():
    rows = []
    for text in (SMALL, NONE):
        (job,) = plan.make(scenario.loads(text), [2], plan.parse_sweeps([]), flows=True)
        rows.append(work.run(job) | {"seconds": 0.0})
    assert rows[0]["flows"]
    assert rows[0] == rows[1]


def test_tables_of_records_say_that_there_are_none_rather_than_that_nothing_was_lost():
    run = mrclab.run(mrclab.Scenario.from_yaml(NONE))
    assert {(row["sent_packets"], row["lost_packets"]) for row in run.flows} == {(None, None)}
    for table in ("samples", "ev_transitions", "losses", "queues", "queue_depths"):
        with pytest.raises(
            mrclab.LabError, match=r"this run kept no history, of which .* are; run it with history: full"
        ):
            getattr(run, table)
    assert run.messages is not None


def test_records_of_qps_in_error_and_of_ends_are_kept():
    kept = [{"kind": "qp.state", "state": "ERROR"}, {"kind": "process.died"}, {"kind": "messages", "done": []}]
    assert all(map(world._is_always_kept, kept))
    assert not any(map(world._is_always_kept, [{"kind": "qp.state", "state": "RTS"}, {"kind": "sample"}]))


@pytest.mark.parametrize("section", ["expect", "measure"])
@pytest.mark.parametrize(
    "entry",
    [
        "{kind: goodput, window: start .. end, at_least: 1% of line}",
        "{kind: lost, fault: [cut], at_most: 9}",
        "{kind: ev_state, fault: cut}",
        "{kind: drops, at_most: 1}",
        "{kind: rtt, window: start .. end, at_most: 9s}",
    ],
)
def test_a_figure_of_records_is_refused_by_name(section, entry):
    kind = entry.split()[1].rstrip(",")
    said = f"{kind} is judged from the history, and this scenario keeps none; write history: full"
    with pytest.raises(ScenarioError, match=said):
        scenario.loads(NONE.replace(f"{section}:\n", f"{section}:\n  - {entry}\n"))


def test_expectations_need_the_history_unless_they_say_that_they_do_not():
    free = {kind for kind in EXPECTATIONS.names if EXPECTATIONS[kind].without_history}
    assert free == {
        "completion", "health", "integrity", "latency", "qp_errors", "slowdown", "step_time", "time_lost"
    }  # fmt: skip


def test_the_wire_refuses_to_do_without(tmp_path):
    with pytest.raises(ScenarioError, match=r"history: none: on the wire .*--world sim"):
        worlds.check(scenario.in_world(scenario.loads(NONE), "wire"))
