"""A package outside the tree, installed as a user installs one: its kinds are known everywhere, and run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mrclab import compiled

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "plugin"
_KNOWN = """
from mrclab.lab.scenario import reference, schema
import json
print(reference.build())
print(json.dumps(schema.build()))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package of examples/plugin, and nothing of it in the environment of the tests."""
    pytest.importorskip("pip", reason="pip is not installed")
    target = tmp_path_factory.mktemp("plugin") / "site"
    words = ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile", "-q", "--target", str(target)]
    source = tmp_path_factory.mktemp("source") / "plugin"
    subprocess.run(["cp", "-r", PACKAGE, source], check=True)  # setuptools builds beside the sources
    subprocess.run([sys.executable, "-m", "pip", "install", *words, source], check=True)
    return target


def python(installed: Path, *words: str, use: str = "") -> str:
    """Run a Python that finds the package; returns what it says."""
    environment = {**os.environ, compiled.VARIABLE: use, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.once
@pytest.mark.parametrize("use", ["0", "1"], ids=["plain", "compiled"])
def test_its_kinds_run_in_virtual_time(installed, use):
    text = python(installed, "-c", "from mrclab import compiled; print(compiled.state().text)").strip()
    if use == "1" and text != "compiled":
        pytest.skip(f"what runs is {text}")
    said = python(installed, str(PACKAGE / "run.py"), use=use)
    assert "t0-p1-1 loses all uplinks" in said
    assert "h1-p2/t0-p2-1 loses 3 of every 100 packets" in said
    assert "PASS integrity" in said
    assert "FAIL" not in said


def test_reference_and_schema_know_its_kinds(installed):
    text = python(installed, "-c", _KNOWN, use="0")  # compiled classes have no docstrings
    for word in ("uplinks_down", "lost_share", "mirror", "aimd", "unmarked", "runs", "pair", "newest"):
        assert text.count(word) >= 2, word
    assert "factor of one decrease" in text
    assert "weight of the newest packet" in text


_DRAWN = """
from mrclab.lab.history import Record
from mrclab.lab.ui.model import PageModel
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec
page = PageModel(Fabric(FabricSpec()))
links = ["t0-p1-1/t1-p1-1"]
page.take(Record(1.0, "lab", "fault.begin", {"fault": "f", "fault_kind": "uplinks_down", "links": links, "text": "x"}))
print(*page.frame(1.1)["down"])
page.take(Record(2.0, "lab", "fault.end", {"fault": "f", "fault_kind": "uplinks_down", "links": links, "text": "x"}))
print(*page.frame(2.1)["down"])
"""


def test_the_page_draws_what_its_fault_takes_carrier_from(installed):
    begun, ended = python(installed, "-c", _DRAWN).splitlines()
    assert begun.isdigit()
    assert ended == ""
