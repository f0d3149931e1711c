"""One small scenario, as the tests of the Python API share it, and a run of it."""

import pytest

import mrclab

FABRIC = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate": "100Gb/s", "delay": "600ns"}}
FILE = {"name": "file", "kind": "write", "from": "h1", "to": "h2", "size": "1 MiB"}


@pytest.fixture(scope="module")
def scenario():
    return mrclab.scenario(
        fabric=FABRIC,
        traffic=[FILE],
        faults=[{"name": "cut", "kind": "link_down", "link": "h1-p1", "at": "30% of file"}],
    )


@pytest.fixture(scope="module")
def run(scenario):
    return mrclab.run(scenario, seed=3)


def made_with(**sections):
    return mrclab.scenario(**{"fabric": FABRIC, "traffic": [FILE]} | sections)
