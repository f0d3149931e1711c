"""Keys, QPNs and first PSNs: those of a seed, or unguessable."""

import random

import pytest
from mrc_sim import node_config

from mrclab.hosts.transports import draws, endpoint
from mrclab.topo import srv6
from mrclab.topo.economy import SeededSecrets


def test_the_draws_are_those_of_a_generator_with_this_seed():
    made, like = SeededSecrets("1/h1/keys"), random.Random("1/h1/keys")
    asked = [32, 24, 32, 7, 64, 24] * 5
    assert [made.getrandbits(bits) for bits in asked] == [like.getrandbits(bits) for bits in asked]


def made(kind, repeatable):
    """QPNs and first PSNs of eight QPs of a host that starts with seed 1."""
    rng, secrets = draws(1, "h1", repeatable)
    config = node_config(1)
    host = endpoint(config, rng, lambda _record: None, kind, secrets)
    peer = srv6.text(srv6.host_address(2, 1))
    infos = [host.verbs.local_info(host.verbs.create_qp(peer, 0.0)) for _ in range(8)]
    return [info["qpn"] for info in infos], [info["psn"] for info in infos]


@pytest.mark.parametrize("kind", ["mrc", "roce"])
def test_qpns_and_first_psns_follow_the_seed_only_where_that_is_asked_for(kind):
    assert made(kind, repeatable=True) == made(kind, repeatable=True)
    one, other = made(kind, repeatable=False), made(kind, repeatable=False)
    assert not set(one[0]) & set(other[0])
    assert not set(one[1]) & set(other[1])
    assert len(set(one[0])) == 8
    assert all(0x100 <= qpn < 0xFFFFFF for qpn in one[0])
    assert max(one[0]) - min(one[0]) > 1000
