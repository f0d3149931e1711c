"""Promises of setup and packages: a lock for every supported Python."""

import re
import runpy
import shutil
import subprocess
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

from mrclab import PACKAGES

ROOT = Path(__file__).parents[2]
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


def _locked(python: str) -> list[str]:
    where = {"python_full_version": f"{python}.0", "python_version": python}
    wanted = [Requirement(line) for line in (ROOT / "requirements.lock").read_text().splitlines()]
    return [_plain(r.name) for r in wanted if r.marker is None or r.marker.evaluate(where)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_names_one_release_of_every_dependency_for_every_python(python):
    locked = Counter(_locked(python))
    wanted = [Requirement(line) for line in metadata.requires("mrclab") or []]
    extras = [
        {"python_version": python, "python_full_version": f"{python}.0", "extra": extra}
        for extra in ("", "dev", "campaign", "wire", "ui")
    ]
    names = {_plain(r.name) for r in wanted if r.marker is None or any(r.marker.evaluate(e) for e in extras)}
    assert set(locked.values()) == {1}
    assert names - {"mrclab"} <= set(locked)


def test_the_citation_names_this_version_and_licence():
    cited = YAML(typ="safe").load(ROOT / "CITATION.cff")
    known = metadata.metadata("mrclab")
    assert (cited["version"], cited["license"]) == (known["Version"], known["License-Expression"])
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_the_map_of_the_code_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = [place.removesuffix("/") for place in re.findall(r"`([\w.]+(?:/[\w.]*)+)`", text)]
    tops = [
        "mrclab",
        "docs",
        "examples",
        "tests",
        *PACKAGES,
        "p4src",
        "setup",
    ]
    made = "/build/types"  # by `make setup`
    files = {made} | {f"/{path.relative_to(ROOT)}" for top in tops for path in [ROOT / top, *(ROOT / top).rglob("*")]}
    assert [place for place in named if not any(file.endswith(f"/{place}") for file in files)] == []
    assert len(named) > 30


def test_no_link_is_under_version_control():
    """A zip from a web page has links as small files, and so has a checkout on Windows."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_the_links_for_type_checkers_are_mended_and_lead_to_all_packages(tmp_path):
    made = runpy.run_path(str(ROOT / "setup" / "links.py"))
    package = tmp_path / "mrclab"
    package.mkdir()
    (package / "gone").symlink_to(tmp_path / "nowhere")
    (package / "hosts").symlink_to(ROOT / "lab")
    for _ in range(2):
        assert made["link"](ROOT, tmp_path) == tmp_path
    assert not (package / "gone").is_symlink()
    assert (package / "hosts" / "agent" / "__main__.py").samefile(ROOT / "hosts" / "agent" / "__main__.py")
    assert {*PACKAGES, "torch", "__init__.py"} <= {path.name for path in package.iterdir()}
