"""The committed build of p4src belongs to the sources beside it, and is what p4c makes of them."""

import json
import shutil

import pytest

from mrclab.lab.command import p4build


def test_committed_build_was_made_of_the_sources_that_stand_beside_it():
    recorded = p4build.DIGEST.read_text().strip()
    assert recorded == p4build.source_digest(), "p4src changed; run `make p4` and commit p4src/build"


def test_digest_changes_when_any_source_changes(tmp_path):
    for source in p4build.SOURCE_DIR.glob("*.p4"):
        shutil.copy(source, tmp_path)
    assert p4build.source_digest(tmp_path) == p4build.source_digest()
    with (tmp_path / "egress.p4").open("a") as file:
        file.write("// changed\n")
    assert p4build.source_digest(tmp_path) != p4build.source_digest()


@pytest.mark.p4c
@pytest.mark.skipif(shutil.which("p4c") is None, reason="p4c is not on PATH")
def test_p4c_makes_the_committed_build_again(tmp_path):
    p4build.build(tmp_path)
    assert (tmp_path / p4build.P4_INFO.name).read_text() == p4build.P4_INFO.read_text()
    assert _meaning(tmp_path / p4build.P4_JSON.name) == _meaning(p4build.P4_JSON)


def _meaning(path):
    """The JSON without what depends on the compiler's release."""
    pipeline = json.loads(path.read_text())
    pipeline.pop("__meta__", None)
    return pipeline
