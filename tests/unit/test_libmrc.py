"""Programs in C on lib_mrc.so, against two hosts joined in memory."""

import os
from pathlib import Path

import pytest
from verbs_ground import PROGRAMS, Ground, build, compiled, needs_compiler

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("libmrc"))


@pytest.fixture
def ground(tmp_path):
    made = Ground(tmp_path)
    for name in "ab":
        os.mkfifo(tmp_path / name)
    yield made
    made.close()


def program(name: str, library: Path) -> Path:
    return compiled(PROGRAMS / f"{name}.c", library)


def ends(ground: Ground, binary: Path, *roles: str) -> list[str]:
    """Run a program at both ends, each in its role."""
    a, b = ground.folder / "a", ground.folder / "b"
    one = ground.start("h1", binary, roles[0], a, b)
    other = ground.start("h3", binary, roles[1], b, a)
    return ground.run(one, other)


def test_every_kind_of_request_arrives_and_completes_as_verbs_promise(library, ground):
    said = ends(ground, program("writes", library), "send", "receive")
    assert "send done" in said[0]
    assert "receive done" in said[1]
    ground.until(ground.nothing_left)
