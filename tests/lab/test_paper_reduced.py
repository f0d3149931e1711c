"""Some of the paper's experiments, on the machine that runs the tests, and the page that holds them to the paper."""

import os
import re
from pathlib import Path

import pytest
from topo_helpers import run_dir

from mrclab.experiments.paper import page
from mrclab.lab.report import suitereport
from mrclab.lab.run import suite
from mrclab.lab.scenario.files import finding

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

EXPERIMENTS = [("e03-half-the-links", ""), ("e05-t0-dies", "links-down"), ("e12-permutation", "mrc")]
LINK = re.compile(r"\{rate_pps: (\d+), delay: (\d+)ms\}")
"""Of each scenario here."""


def slower(path: Path, directory: Path) -> Path:
    """A copy with as many packets in flight and in a sample, at twice the round trip: here other things run too."""
    copy = directory / path.name
    text, changed = LINK.subn(lambda m: f"{{rate_pps: {int(m[1]) // 2}, delay: {2 * int(m[2])}ms}}", path.read_text())
    assert changed == 1
    text = text.replace("kind: recover,", "kind: recover, sample: 200ms,")  # of 0.1 s there
    copy.write_text(text.replace("duration: 20s", "duration: 13s"))  # of the permutation, judged from 8.6 s on
    return copy


def test_the_shapes_of_the_paper_come_out_here(tmp_path: Path) -> None:
    planned = []
    for name, variant in EXPERIMENTS:
        (path,) = finding.find([f"paper/{name}"])
        (loaded,) = suite.load_all([slower(path, tmp_path)])
        planned.append(loaded.pick(variant) if variant else loaded)
    made = suite.Suite(tmp_path, lambda *_: None, lambda _: None, "soft", run_dir("paper"), again=4)
    result = made.run(planned, "paper")
    suitereport.write(result)
    assert [(entry.label, suitereport.why(entry)) for entry in result.entries if entry.state != "passed"] == []
    html, chapters = page.write(result.directory)
    assert "e03-half-the-links-figures.png" in (html.parent / "README.md").read_text()
    by_name = {chapter.experiment.scenario: chapter for chapter in chapters}
    assert by_name["e03-half-the-links"].state == "pass"
    assert {line.state for line in by_name["e10-all-to-all"].lines} == {"missing"}
