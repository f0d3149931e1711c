"""The drill itself: one round of a kind that ends the run and one that does not, on this machine."""

import json
import os

import pytest

from mrclab.experiments.drill.__main__ import main

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.mark.parametrize("kind", ["kill an agent", "flood a socket"])
def test_a_round_ends_as_it_must(tmp_path, kind):
    assert main(["--rounds", "1", "--only", kind, "--report", str(tmp_path / "rounds.json")]) == 0
    (made,) = json.loads((tmp_path / "rounds.json").read_text())
    assert made["what"] == kind
    assert made["wrong"] == []
