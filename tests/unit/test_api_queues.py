"""Tables of a run: queue depths as distributions, slowdown of flows, samples as often as a scenario asks."""

import mrclab


def run(**fabric: object) -> mrclab.Run:
    scenario = mrclab.scenario(
        fabric={
            "planes": 1, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, "link": {"rate": "100 Gb/s", "delay": "600ns"}, **fabric
        },
        traffic=[{"name": "in", "kind": "incast", "from": ["h3", "h4"], "to": "h1", "size": "2 MB", "message": "2 MB"}],
    )  # fmt: skip
    return mrclab.run(scenario, world="sim", seed=1)


def test_the_last_hop_of_an_incast_has_the_longest_queue():
    (last,) = [row for row in run(sample_every="5us").queues if row["link"] == "h1-p1/t0-p1-1"]
    assert (last["tier"], last["plane"], last["switch"]) == ("t0", 1, "t0-p1-1")
    assert 0 < last["p50"] <= last["p90"] <= last["p99"] <= last["most"]


def test_samples_come_as_often_as_a_scenario_asks():
    seldom, often = (run(sample_every=every).queues[0]["samples"] for every in ("20us", "2us"))
    assert often > 5 * seldom


def test_two_senders_that_share_a_port_take_twice_as_long_as_alone():
    for flow in run().flows:
        assert 1.7 < flow["slowdown"] < 2.3
