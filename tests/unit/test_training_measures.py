"""Steps of jobs in a history written by hand: times, waiting, stragglers, time lost."""

import pytest

from mrclab.lab.history import History, Record
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.traffic.training import TimeLost
from mrclab.lab.scenario.scenario import loads

TEXT = """
name: job
world: sim
fabric: {planes: 1, t0s: 1, t1s: 1, hosts_per_t0: 2}
traffic: [{name: job, kind: training, parameters: 1.0e6, forward: 1ms, steps: STEPS}]
faults: [{name: cut, kind: link_down, link: h1/t0-p1-1, at: 3s, until: 4s}]
expect:
"""
SECONDS = [1.0, 1.0, 1.0, 1.5, 1.0]  # of each step; the fault strikes in the fourth


def measures(expect, steps=5, reference=False, done=5, begin=3.2):
    flow = {"flow": "job", "source": "h1", "destination": "h2", "size": 0, "qps": []}
    rows = [Record(0.0, "lab", "traffic.start", {"traffic": "job", "traffic_kind": "training", "flows": [flow]})]
    began = 0.0
    for step, seconds in enumerate(SECONDS[:done]):
        ended = began + seconds
        for rank, early in enumerate((0.1, 0.0)):
            told = {"began": began, "ended": ended - early, "compute": 0.6 + early, "traffic": "job", "rank": rank}
            rows.append(Record(ended - early, f"h{rank + 1}", "training.step", {**told, "step": step}))
        began = ended
    cut = {"fault": "cut", "fault_kind": "link_down", "links": ["h1-p1/t0-p1-1"], "text": "h1-p1/t0-p1-1 down"}
    rows += [Record(begin, "lab", "fault.begin", cut), Record(4.0, "lab", "fault.end", cut)]
    rows.append(Record(began, "lab", "traffic.end", {"traffic": "job"}))
    if reference:
        ends = [1.0, 2.0, 3.0, 4.0, 5.0]
        rows.append(Record(0.0, "lab", "training.reference", {"traffic": "job", "began": 0.0, "ends": ends}))
    loaded = loads(TEXT.replace("STEPS", str(steps)) + f"  - {{{expect}}}\n", "job.yaml")
    return Measures(History(rows), loaded.scenario, loaded.fabric)


@pytest.mark.parametrize(
    ("expect", "more", "ok", "observed"),
    [
        ("kind: step_time, traffic: job, at_most: 1.1s", {}, True, "1.00 s"),
        ("kind: step_time, traffic: job, percentile: 100, at_most: 1.4s", {}, False, "1.50 s"),
        ("kind: step_time, traffic: job, percentile: mean, about: 1.1s, within: 1%", {}, True, "over 5 steps"),
        ("kind: step_time, traffic: job, window: cut .. cut.end, at_most: 1s", {}, False, "no step of job was done"),
        ("kind: time_lost, traffic: job, at_most: 0.6s", {}, True, "0.50 steps, against the median step before"),
        ("kind: time_lost, traffic: job, at_most: 0.4s", {"reference": True}, False, "the same run without faults"),
        ("kind: time_lost, traffic: job, steps_at_most: 0.4", {}, False, "500 ms = 0.50 steps"),
        ("kind: time_lost, traffic: job, at_most: 9s", {"steps": 9}, False, "ended after 5 of 9 steps"),
        ("kind: time_lost, traffic: job, at_most: 9s", {"done": 3}, False, "job ended no step after the first fault"),
        ("kind: time_lost, traffic: job, at_most: 9s", {"done": 0}, False, "job ended no step"),
        ("kind: time_lost, traffic: job, at_most: 9s", {"begin": 0}, False, "job ended no step before the first fault"),
    ],
)
def test_an_expectation_of_a_job_holds_or_not_and_says_what_it_observed(expect, more, ok, observed):
    found = measures(expect, **more)
    (verdict,) = [entry.check(found) for entry in found.scenario.expect]
    assert observed in verdict.observed
    assert verdict.ok is ok
    assert verdict.expected


def test_a_step_ends_with_its_last_rank_and_what_ranks_did_not_compute_is_exposed():
    training = measures("kind: integrity").training
    assert training.jobs == ["job"]
    assert training.seconds("job") == pytest.approx(SECONDS)
    assert training.exposed("job") == pytest.approx(1.1 - 0.65)
    first, second = training.stragglers("job")
    assert (first.rank, first.last, second.rank) == (1, 5, 0)
    assert first.exposed == pytest.approx(1.1 - 0.6)


def test_time_lost_of_less_than_a_hundredth_of_a_step_has_no_sign():
    assert str(TimeLost(-1.74e-6, 7.9e-4, True)) == "-1.74 µs = 0.00 steps"


def test_a_step_that_a_rank_did_not_end_is_none():
    found = measures("kind: integrity")
    rows = [r for r in found.history.records if r.kind != "training.step" or r["step"] != 2 or r["rank"]]
    training = Measures(History(rows), found.scenario, found.fabric).training
    assert len(training.steps("job")) == 2
