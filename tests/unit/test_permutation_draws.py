"""Drawn permutations: everybody sends to one other, and none stays in its T0 group where that is possible."""

import pytest

from mrclab.lab.traffic.kinds.groups import Permutation
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


def drawn(t0s: int, hosts: int, seed: int, **fields: object) -> list[tuple[int, int, bool]]:
    fabric = Fabric(FabricSpec(planes=1, t0s=t0s, t1s=1, hosts_per_t0=hosts))
    names = [host.name for host in fabric.hosts]
    made = Permutation(name="all", kind="permutation", size=1, hosts=names, **fields).flows(fabric, seed)
    place = {name: number for number, name in enumerate(names)}
    pairs = [(place[one.source], place[one.destination]) for one in made]
    return [(a, b, fabric.group(names[a]) == fabric.group(names[b])) for a, b in pairs]


@pytest.mark.parametrize(("t0s", "hosts"), [(2, 2), (2, 8), (2, 32), (3, 8), (4, 16)])
def test_no_pair_shares_a_group_however_unlikely_that_is_to_be_drawn(t0s, hosts):
    for seed in range(3):
        pairs = drawn(t0s, hosts, seed)
        assert sorted(b for _, b, _ in pairs) == [a for a, _, _ in pairs]
        assert not any(inside for *_, inside in pairs)


def test_where_it_is_impossible_nobody_sends_to_itself():
    pairs = drawn(1, 8, 1)
    assert sorted(b for _, b, _ in pairs) == list(range(8))
    assert all(a != b for a, b, _ in pairs)


def test_pairs_may_share_a_group_where_asked():
    assert any(inside for *_, inside in drawn(2, 16, 1, cross_group=False))
