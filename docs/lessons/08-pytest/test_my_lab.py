"""Lesson 8: a scenario of your own as a pytest, in virtual time."""

import pytest


@pytest.fixture(scope="module")
def lab_options():
    return {
        "world": "sim",
        "fabric": {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate_pps": 500, "delay": "5ms"}},
    }


def test_a_file_crosses_while_a_cable_loses_everything_silently(lab):
    with lab.link("t0-p1-1", "t1-p1-2").silent_drop():
        lab.transfer("h1", "h2", "1 MiB")
    pytest.fail("assert what must be true of the transfer, and what the fault must have done to the path")
