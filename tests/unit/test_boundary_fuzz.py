"""Boundary: the kept corpus of every fuzz target, and mutations of it by a fixed seed. `make fuzz` goes on from it."""

import random
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.append(str(FUZZ))

import targets  # noqa: E402 - found only now

_MUTATIONS = 3  # of each input


def mutations(data: bytes, rng: random.Random):
    yield data
    for _ in range(_MUTATIONS if data else 0):
        made = bytearray(data)
        at = rng.randrange(len(made))
        made[at : at + rng.randrange(4)] = rng.choice((b"", b"[", b"\0", b"-1", b"1e999", b"\xff", b"&a ", b'"'))
        yield bytes(made)


@pytest.mark.parametrize("name", targets.TARGETS)
def test_the_kept_corpus_finds_nothing(name):
    kept = sorted((targets.CORPUS / name).iterdir())
    assert kept
    rng = random.Random(name)
    for path in kept if name != "results" else kept[::4]:
        for data in mutations(path.read_bytes(), rng):
            targets.TARGETS[name](data)
