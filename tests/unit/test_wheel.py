"""Result of `pip install`: an sdist makes a wheel, which works with no more than the dependencies that it names."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mrclab import PACKAGES

ROOT = Path(__file__).parents[2]
BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


def _build(kind: str, source: Path, target: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, kind, str(target)],
        cwd=source,
        env={**os.environ, "MRCLAB_COMPILED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, made from the sdist of a copy of what is under version control or could be."""
    place = tmp_path_factory.mktemp("dist")
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is not a git checkout")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    copy = subprocess.run(
        ["tar", "-c", "--null", "-T", "-"], cwd=ROOT, input=names, capture_output=True, check=True
    ).stdout
    (place / "checkout").mkdir()
    subprocess.run(["tar", "-x", "-C", str(place / "checkout")], input=copy, check=True)
    sdist = _build("sdist", place / "checkout", place)
    subprocess.run(["tar", "-xf", str(sdist), "-C", str(place)], check=True)
    (source,) = place.glob("mrclab-*/pyproject.toml")
    return _build("wheel", source.parent, place)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A virtual environment with the wheel and, linked from this one, what it depends on. Returns its `bin`."""
    place = tmp_path_factory.mktemp("venv")
    venv.create(place, symlinks=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    home = Path(sysconfig.get_path("purelib"))
    for name in _closure("mrclab"):
        for top in {file.parts[0] for file in metadata.files(name) or [] if file.parts[0] not in {"..", "__pycache__"}}:
            if not (packages / top).exists():
                (packages / top).symlink_to(home / top)
    return place / "bin" / "python"


def _closure(name: str) -> set[str]:
    """Names of all distributions that `name` needs without any extra."""
    found, waiting = set(), [name]
    while waiting:
        for line in metadata.requires(waiting.pop()) or []:
            wanted = Requirement(line)
            if (wanted.marker is None or wanted.marker.evaluate({"extra": ""})) and wanted.name not in found:
                found.add(wanted.name)
                waiting.append(wanted.name)
    return found


def _mrclab(python: Path, place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = "from mrclab.lab.command.entry import main; main()"
    environment = {"PATH": os.defpath, "HOME": str(place), "LANG": "C.UTF-8"}
    return subprocess.run(
        [str(python), "-c", program, *words], cwd=place, env=environment, capture_output=True, text=True, check=False
    )


def test_the_wheel_holds_all_files_of_the_packages_and_nothing_beside_them(wheel):
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    beside = {*PACKAGES, "p4src", "scenarios"}
    wanted = {f"mrclab/{name}" for name in tracked if name.split("/")[0] in beside}
    wanted |= {name for name in tracked if name.startswith("mrclab/")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert wanted - names == set()
    assert {name.split("/")[0] for name in names} == {
        "mrclab",
        next(n.split("/")[0] for n in names if "dist-info" in n),
    }


def test_it_plans_in_an_empty_folder(installed, tmp_path):
    done = _mrclab(installed, tmp_path, "plan", "link-failure")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fcbb:bb00" in done.stdout


def test_it_says_what_real_frames_need(installed, tmp_path):
    done = _mrclab(installed, tmp_path, "run", "scenarios/link-failure.yaml")
    assert done.returncode == 2
    assert "pip install '.[wire]'" in done.stderr
    assert "--world sim" in done.stderr


def test_it_runs_a_scenario_and_makes_its_report_again(installed, tmp_path):
    done = _mrclab(installed, tmp_path, "run", "scenarios/link-failure.yaml", "--world", "sim")
    assert done.returncode == 0, done.stderr
    assert "PASS" in done.stdout
    (results,) = (tmp_path / "results").iterdir()
    assert list(results.glob("*.png"))
    (results / "report.html").unlink()
    assert _mrclab(installed, tmp_path, "report", str(results)).returncode == 0
    assert (results / "report.html").is_file()


def test_it_runs_a_suite(installed, tmp_path):
    traffic = "[{name: file, kind: write, from: h1, to: h3, size: 64 KiB}]"
    (tmp_path / "small.yaml").write_text(f"name: small\ntraffic: {traffic}\nexpect: [{{kind: integrity}}]\n")
    done = _mrclab(installed, tmp_path, "suite", "small.yaml", "--world", "sim")
    assert done.returncode == 0, done.stderr + done.stdout
    (results,) = (tmp_path / "results").glob("suite-*")
    assert {run["state"] for run in json.loads((results / "suite.json").read_text())["runs"]} == {"passed"}


def test_its_python_api_runs_the_first_program(installed, tmp_path):
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    words = [str(installed), str(ROOT / "examples" / "first_run.py")]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PASS integrity" in done.stdout
