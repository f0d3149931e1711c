"""The page of baselines beside uet-htsim: its tables."""

from dataclasses import replace

from mrclab.bench.sim import baselines, htsim, load
from mrclab.bench.sim.children import SimCost

COST = SimCost(1.0, 1.0, 1).of("x", 100, 5, [1e-4, 2e-4])


def test_a_baseline_is_run_with_its_own_settings_here_and_there(monkeypatch):
    asked = []
    monkeypatch.setattr(load, "run", lambda one: (asked.append(one), COST)[1])
    monkeypatch.setattr(htsim, "run", lambda one, _folder: (asked.append(one), replace(COST, retransmitted=10))[1])
    found = list(baselines.rows(2))
    assert len(found) == sum(len(case.loads) for case in baselines.CASES)
    reps = [one for one in asked if one.selection == "reps"]
    assert {one.seed for one in reps} == {1, 2}
    assert "-load_balancing_algo reps" in " ".join(reps[0].options())
    dctcp = next(one for one in asked if one.control == "dctcp")
    assert "-sender_cc_algo dctcp" in " ".join(dctcp.options())
    text = baselines.text(found)
    assert "| reps | 200.0 ± 0.0 | 200.0 ± 0.0 | +0.0% |" in text
    assert "| 5.0% | 10.0% |" in text
    assert text.count("| swift | 200.0 ± 0.0 | – |") == 3
