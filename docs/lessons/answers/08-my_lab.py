"""A solution of lesson 8."""

import pytest


@pytest.fixture(scope="module")
def lab_options():
    return {
        "world": "sim",
        "fabric": {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate_pps": 500, "delay": "5ms"}},
    }


def test_a_file_crosses_while_a_cable_loses_everything_silently(lab):
    stream = lab.start("write", **{"from": "h1", "to": "h2"}, size="4 MiB")
    stream.reach(0.25)
    with lab.link("t0-p1-1", "t1-p1-2").silent_drop():
        stream.reach(0.75)
        states = {(path["plane"], path["uplink"]): path["state"] for path in lab.paths("h1")}
        assert states.pop((1, 2)) == "ASSUMED_BAD"
        assert set(states.values()) == {"GOOD"}
    assert stream.wait().intact
