"""`measure:` beside `expect:`: figures that are told and not judged."""

import pytest

from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario

SCENARIO = """
name: small
world: sim
fabric: {planes: 1, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate: 100 Gb/s, delay: 600ns}}
traffic:
  - {name: all, kind: permutation, size: 64 KiB, content: counted}
expect:
  - {kind: qp_errors, at_most: 0}
measure:
  - {kind: completion, name: last, traffic: all, of: flows, percentile: 100}
  - {kind: drops, name: dropped, reason: queue}
  - {kind: goodput, window: start .. end}
MORE
"""


def loads(more=""):
    return scenario.loads(SCENARIO.replace("MORE", more), "small.yaml")


def test_figures_are_told_and_not_judged(tmp_path):
    outcome = runner.run_scenario(loads(), tmp_path, lambda *_: None, lambda _: None, report=True)
    assert outcome.state == "passed"
    judged, last, dropped, goodput = outcome.verdicts
    assert judged.kind == "qp_errors"
    assert last.ok
    assert last.expected.endswith("(measured)")
    assert 5e-6 < last.value < 50e-6
    assert dropped.ok
    assert dropped.value == 0
    assert goodput.value > 0
    page = (outcome.directory / "report.html").read_text(encoding="utf-8")
    assert "1 of 1 expectations passed, 3 figures measured; " in page
    assert (page.count(">measured</td>"), page.count(">passed</td>")) == (3, 1)


def test_what_cannot_be_measured_fails(tmp_path):
    more = "  - {kind: goodput, window: end + 1ms .. end + 2ms}"
    outcome = runner.run_scenario(loads(more), tmp_path, lambda *_: None, lambda _: None, report=False)
    assert outcome.state == "failed"
    assert not outcome.verdicts[-1].ok


def test_what_is_measured_is_checked_as_what_is_expected():
    with pytest.raises(ScenarioError, match=r"measure\[4\].of: all has no iterations"):
        loads("  - {kind: completion, traffic: all, of: iterations}")
    with pytest.raises(
        ScenarioError, match=r"measure\[4\].window: the window end .. start ends at or before its begin"
    ):
        loads("  - {kind: goodput, window: end .. start}")


def test_every_kind_is_measured_without_its_limits(tmp_path):
    faults = "faults: [{name: cut, kind: link_down, link: t0-p1-1/t1-p1-1, at: 2us}]\n"
    window = "window: start .. end"
    more = [
        "{kind: detect, fault: cut}",
        "{kind: recover, fault: cut, to: 1% of line, sample: 25us, keep: 1}",
        f"{{kind: goodput_floor, {window}, sample: 25us}}",
        f"{{kind: stall, {window}}}",
    ]
    text = SCENARIO.replace("MORE", "".join(f"  - {each}\n" for each in more)).replace("measure:", faults + "measure:")
    text = text.replace("size: 64 KiB", "size: 2 MiB")
    outcome = runner.run_scenario(scenario.loads(text, "small.yaml"), tmp_path, *[lambda *_: None] * 2, report=False)
    detect, recover, floor, stall = outcome.verdicts[-4:]
    assert all(each.ok and each.value is not None for each in (detect, recover, floor, stall)), outcome.verdicts
    assert detect.expected == "the last EV over t0-p1-1/t1-p1-1 is out (measured)"
    assert recover.expected == "goodput ≥ 1% of line after cut began (measured)"
    assert (floor.expected, floor.unit) == ("every 25 µs sample of goodput (measured)", "B/s")
    assert stall.expected == "stall (measured)"


def test_limits_refer_to_what_is_measured(tmp_path):
    more = "  - {kind: goodput, name: whole, window: start .. end}\n  - {kind: completion, name: t, traffic: all}"
    text = SCENARIO.replace("MORE", more).replace(
        "measure:",
        "  - {kind: goodput, window: start .. end, about: 100% of whole}\n"
        "  - {kind: completion, traffic: all, at_most: 100% of t}\nmeasure:",
    )
    outcome = runner.run_scenario(scenario.loads(text, "small.yaml"), tmp_path, *[lambda *_: None] * 2, report=False)
    assert [verdict.ok for verdict in outcome.verdicts[:3]] == [True] * 3
    with pytest.raises(ScenarioError, match="no goodput is named 'hole'; did you mean 'whole'"):
        scenario.loads(text.replace("100% of whole", "100% of hole"), "small.yaml")


def test_an_expectation_still_needs_its_limit():
    text = SCENARIO.replace("MORE", "").replace("measure:\n", "")
    with pytest.raises(ScenarioError, match=r"expect\[2\].*completion expectation needs at_least or at_most"):
        scenario.loads(text, "small.yaml")
