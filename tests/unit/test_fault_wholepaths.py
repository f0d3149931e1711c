"""Whole paths between hosts, against a walk over all pairs and all cables."""

import random
from itertools import combinations

import pytest

from mrclab.lab.faults.chaos import IntactPaths
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


def by_walking(fabric, broken):
    counts = []
    for one, other in combinations(fabric.hosts, 2):
        paths = fabric.paths(one.name, other.name)
        links = [{link.name for link in fabric.path_links(one.name, other.name, *path)} for path in paths]
        counts.append(sum(path.isdisjoint(broken) for path in links))
    return min(counts, default=0)


@pytest.mark.parametrize(("t0s", "t1s", "hosts"), [(1, 1, 1), (1, 2, 3), (2, 2, 1), (3, 2, 2), (4, 3, 2)])
def test_the_fewest_whole_paths_of_any_pair_are_counted(t0s, t1s, hosts):
    fabric = Fabric(FabricSpec(planes=3, t0s=t0s, t1s=t1s, hosts_per_t0=hosts))
    paths = IntactPaths(fabric)
    names = [link.name for link in fabric.links]
    draw = random.Random(f"{t0s} {t1s} {hosts}")
    for _ in range(150):
        broken = set(draw.sample(names, draw.randint(0, min(8, len(names)))))
        assert paths.least(broken) == by_walking(fabric, broken), broken
