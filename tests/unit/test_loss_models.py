"""Loss models and populations: shares and bursts as asked for, the same with the same seed, the same in both worlds."""

import itertools
import json
import random

import pytest
from pydantic import TypeAdapter, ValidationError

import mrclab
from mrclab.lab.errors import ScenarioError
from mrclab.lab.faults.losses import LossModel, cycle
from mrclab.sim.clock import Clock
from mrclab.sim.links.faults import decider
from mrclab.topo.cables.cablefaults import LONG_CYCLE, LossCycle
from mrclab.topo.errors import TopoError

FILE = {"name": "a", "kind": "write", "from": "h1", "to": "h3", "size": "64 KiB"}


def model(**fields):
    return TypeAdapter(LossModel).validate_python({"kind": "gilbert_elliott", **fields})


@pytest.mark.parametrize(("rate", "burst", "in_bad", "in_good"), [
    (0.01, 5, 1.0, 0.0), (0.1, 1.5, 1.0, 0.0), (0.02, 20, 0.5, 0.0), (0.01, 50, 0.3, 0.001),
])  # fmt: skip
def test_gilbert_elliott_loses_its_mean_rate_in_bursts_of_its_mean_length(rate, burst, in_bad, in_good):
    made = model(rate=rate, burst=burst, loss_in_bad=in_bad, loss_in_good=in_good)
    lost = list(itertools.takewhile(lambda number: number < 2_000_000, made.lost(random.Random(1))))
    assert len(lost) / 2_000_000 == pytest.approx(rate, rel=0.05)
    if in_bad == 1.0:
        bursts = 1 + sum(b - a > 1 for a, b in itertools.pairwise(lost))
        merged = burst * (1 + made.to_bad)  # two that follow each other at once look like one
        assert len(lost) / bursts == pytest.approx(merged, rel=0.1)


def test_the_same_packets_are_lost_with_the_same_seed_and_in_both_worlds():
    made = model(rate=0.01, burst=4)
    drawn = cycle(made, "7/f/h1-p1", 64)
    assert drawn.lost == cycle(made, "7/f/h1-p1", 64).lost != cycle(made, "8/f/h1-p1", 64).lost
    assert len(drawn.lost) == 64
    hits = decider(drawn, "any", Clock())
    assert [n for n in range(drawn.packets) if hits(n)] == list(drawn.lost)
    assert hits(drawn.packets + drawn.lost[3])
    assert drawn.rule("counter").startswith(f"numgen inc mod {drawn.packets} {{ {drawn.lost[0]}, ")


def test_a_rare_loss_ends_with_the_longest_cycle():
    assert cycle(model(rate=1e-6, burst=1), "1", 4096).packets == LONG_CYCLE
    assert LossCycle(2, ()).rule("c") == "numgen inc mod 2 >= 2 c drop"


@pytest.mark.parametrize(("fields", "words"), [
    ({"rate": 0.5, "burst": 10, "loss_in_bad": 0.4}, "is not between loss_in_good 0 and loss_in_bad 0.4"),
    ({"rate": 0.9, "burst": 1}, "are too short for a rate of 0.9; raise burst"),
    ({"rate": "1%"}, "burst"),
])  # fmt: skip
def test_impossible_bursts_are_refused(fields, words):
    with pytest.raises(ValidationError, match=words):
        model(**fields)


@pytest.mark.parametrize("numbers", [[5, 3], ["5"]])
def test_a_model_that_does_not_count_upwards_is_refused(monkeypatch, numbers):
    made = model(rate=0.1, burst=2)
    monkeypatch.setattr(type(made), "lost", lambda *_: iter(numbers))
    with pytest.raises(TopoError, match=r"loss model gilbert_elliott draws packet '?[35]'? after .*; let it count up"):
        cycle(made, "1", 10)


def test_a_loss_of_zero_loses_nothing():
    fault = {"name": "f", "kind": "loss", "link": "h1-p1", "rate": 0, "at": "0s"}
    run = mrclab.run(scenario(faults=[fault], expect=[{"kind": "integrity"}]))
    assert run.faults[0]["text"] == "h1-p1/t0-p1-1 loses 0% of packets"
    assert [verdict.ok for verdict in run.verdicts] == [True]


def scenario(**more):
    link = {"rate": "100Gb/s", "delay": "600ns"}
    fabric = {"planes": 2, "t0s": 4, "t1s": 5, "hosts_per_t0": 2, "link": link}
    return mrclab.scenario(fabric=fabric, traffic=[FILE], **more)


def population(seed=1, **fields):
    return scenario(seed=seed, faults=[{"name": "grey", "kind": "population", "at": "0s", **fields}])


def test_a_population_is_drawn_from_the_seed_and_named_in_the_history():
    cables = []
    for seed in (1, 1, 2):
        run = mrclab.run(population(seed, share="10%", of="t0-t1", fault={"kind": "loss", "rate": "1%"}))
        rows = {row["fault"]: row for row in run.faults}
        assert rows["grey"]["text"] == "4 of 40 T0–T1 cables have loss"
        assert sorted(rows) == ["grey", "grey-1", "grey-2", "grey-3", "grey-4"]
        cables.append(json.dumps([rows[f"grey-{n}"]["links"] for n in range(1, 5)]))
        assert "/t1-" in cables[-1]
    assert cables[0] == cables[1] != cables[2]


@pytest.mark.parametrize(("fields", "words"), [
    ({"share": "1%", "fault": {"kind": "los"}}, "'los' is not a fault of a cable; did you mean 'loss'"),
    ({"share": "1%", "fault": {"kind": "plane_down", "plane": 1}}, "is not a fault of a cable"),
    ({"share": "1%", "fault": {"kind": "loss", "rate": 2}}, "2 would be 200%"),
    ({"share": "1%", "fault": {"kind": "loss", "rate": 0, "link": "h1-p1"}}, "link is set by the population"),
    ({"fault": {"kind": "loss", "rate": "1%"}}, "either a share"),
    ({"share": "1%", "fault": {"kind": ["loss"]}}, r"\['loss'\] is not a fault of a cable"),
    ({"count": 1, "of": "t1-t2", "fault": {"kind": "loss", "rate": "1%"}}, "has no T1–T2 cables"),
])  # fmt: skip
def test_what_no_population_can_be_is_refused(fields, words):
    with pytest.raises(ScenarioError, match=words):
        population(**fields)
