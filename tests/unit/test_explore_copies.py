"""Copies of a system under exploration, on every Python."""

from mrclab.experiments.explore import fingerprint
from mrclab.experiments.explore.copying import Snapshot
from mrclab.experiments.explore.system import System
from mrclab.experiments.explore.worlds import known_worlds


def test_a_copy_is_the_same_state_as_its_original():
    system = System(known_worlds()["probe-ids"])
    for _ in range(4):
        assert fingerprint.of(Snapshot(system).copy()) == fingerprint.of(system)
        system.do(system.actions()[0])
