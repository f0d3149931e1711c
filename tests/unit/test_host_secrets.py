"""Keys and first PSNs of a seed, whether or not the generator is kept."""

import random

from mrclab.hosts.rdma.keys import SeededSecrets


def test_the_draws_are_those_of_a_generator_with_this_seed():
    made, like = SeededSecrets("1/h1/keys"), random.Random("1/h1/keys")
    asked = [32, 24, 32, 7, 64, 24] * 5
    assert [made.getrandbits(bits) for bits in asked] == [like.getrandbits(bits) for bits in asked]
