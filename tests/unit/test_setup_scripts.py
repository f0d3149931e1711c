"""The scripts and the Vagrantfile that set the lab up, as far as this machine has what checks them."""

import os
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "setup").glob("*.sh"), ROOT / ".ci" / "run"])


def _needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not on PATH")


def _run(*argv: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [str(word) for word in argv], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_can_be_run_and_parsed(script):
    assert os.access(script, os.X_OK)
    assert _run("bash", "-n", script).stderr == ""


@_needs("shellcheck")
def test_shellcheck_has_nothing_to_say():
    assert _run("shellcheck", *SCRIPTS).stdout == ""


@_needs("ruby")
def test_the_vagrantfile_is_ruby():
    assert _run("ruby", "-c", "Vagrantfile").stdout.strip() == "Syntax OK"


@_needs("vagrant")
@pytest.mark.parametrize("choice", [{}, {"MRCLAB_BOX": "debian"}, {"MRCLAB_BMV2": "1", "MRCLAB_QEMU": "1"}])
def test_vagrant_takes_the_vagrantfile(tmp_path, choice):
    places = {"VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_DOTFILE_PATH": str(tmp_path / "state")}
    done = _run("vagrant", "validate", "--ignore-provider", **places, **choice)
    assert (done.returncode, "validated successfully" in done.stdout) == (0, True), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif("ID=ubuntu" in Path("/etc/os-release").read_text(), reason="p4lang has packages for Ubuntu")
@pytest.mark.skipif(shutil.which("simple_switch_grpc") is not None, reason="BMv2 is installed")
def test_where_bmv2_cannot_be_had_one_line_says_what_follows():
    done = _run(ROOT / "setup" / "p4lang.sh")
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert "embedded target" in line


def test_what_the_machine_makes_is_not_under_version_control():
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {".vagrant/", ".venv", ".venv-*", "/results/"} <= set(ignored)


def test_a_retired_word_is_named_whole():
    words = runpy.run_path(str(ROOT / "setup" / "words.py"))
    assert list(words["retired"]("a bob", {r"\bbob\b": "bobsled"})) == ["1: retired word bob; say bobsled"]
