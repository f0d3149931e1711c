"""The drill itself: one round that leaves a whole result, and one that makes it none.

Runs that end by what is done to them are those of test_mrclab_endings.py; their judgement is test_drill_judging.py's.
"""

import json
import os

import pytest
from drill import main

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("flood a socket", []),
        ("stop a helper for long", ["--phase", "traffic"]),
    ],
)
def test_a_round_ends_as_it_must(tmp_path, kind, options):
    assert main(["--rounds", "1", "--only", kind, *options, "--report", str(tmp_path / "rounds.json")]) == 0
    (made,) = json.loads((tmp_path / "rounds.json").read_text())
    assert made["what"] == kind
    assert made["wrong"] == []
    if "for long" in kind:
        assert made["status"] == 3
        assert "state T" in made["reason"]
