"""The compiled form of transport and simulator: when it counts, and that it does what the sources do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mrclab import compiled
from mrclab.lab.command import doctor

ROOT = Path(__file__).parents[2]
_STATE = "from mrclab import compiled; print(compiled.state().text)"
_DIGEST = """
import sys
sys.path.insert(0, "tests/unit")
from sim_pair import Sim, Write, finish
import mrclab.hosts.mrc.requestor as requestor

sim = Sim(transport=sys.argv[1], link={"rate": "100 Gb/s", "delay": "600ns"})
writes = [Write(sim, name, "h4", 1 << 20) for name in ("h1", "h2", "h3")]
sim.run(30e-6)
sim.fabric.cable("h4-p2").set_carrier(False)
finish(sim, *writes, within=1.0)
assert all(write.received == write.sent for write in writes)
print(requestor.__file__.rsplit(".", 1)[1], len(sim.records), sim.digest())
"""
_ALSO_COMPILED = (
    "test_mrc_endpoint",
    "test_mrc_loss",
    "test_mrc_properties",
    "test_mrc_shared_window",
    "test_roce_dcqcn",
    "test_sim_clock",
)


def _python(program: str, *words: str, use: str) -> str:
    environment = {**os.environ, compiled.VARIABLE: use}
    argv = [sys.executable, "-c", program, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=ROOT, env=environment).stdout.strip()


@pytest.fixture(scope="module")
def built() -> None:
    """Skips where there is no build of these sources."""
    if (text := _python(_STATE, use="")) != "compiled":
        pytest.skip(f"what runs is {text}")


# --- when a build counts ----------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A tree with one source and a build of it whose library does not exist."""
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    source = tmp_path / "sim" / "clock.py"
    source.parent.mkdir()
    source.write_text("SECOND = 1\n")
    build = compiled.folder(tmp_path)
    build.mkdir(parents=True)
    manifest = {"sources": {"sim/clock.py": compiled.digest(source)}, "modules": {"mrclab.sim.clock": "lib/clock.so"}}
    (build / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def test_without_a_build_the_sources_run(tmp_path, monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    finder = compiled.Finder(tmp_path)
    assert finder.state() == (False, "plain Python; `make compiled` makes it faster where a C compiler is")
    assert finder.find_spec("mrclab.sim.clock") is None


def test_a_build_of_other_sources_is_left_alone(tree):
    (tree / "sim" / "clock.py").write_text("SECOND = 2\n")
    finder = compiled.Finder(tree)
    assert finder.find_spec("mrclab.sim.clock") is None
    assert finder.state() == (False, "plain Python, as sim/clock.py changed since `make compiled`")


def test_a_build_that_does_not_load_is_left_alone(tree):
    assert "do not load" in compiled.Finder(tree).state().text
    compiled.folder(tree).joinpath("manifest.json").write_text("half of it")
    assert compiled.Finder(tree).state() == compiled.Finder(tree.parent).state()


def test_the_environment_says_whether_it_may_and_whether_it_must(tree, monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert compiled.Finder(tree).state() == (False, "plain Python, as MRCLAB_COMPILED is 0")
    monkeypatch.setenv(compiled.VARIABLE, "1")
    with pytest.raises(RuntimeError, match="MRCLAB_COMPILED is 1, but what runs is plain Python, as"):
        compiled.Finder(tree).state()


def test_doctor_says_what_runs(monkeypatch):
    monkeypatch.setattr(doctor, "_BUSY_S", 0.0001)
    said = next(check for check in doctor.examine() if check.name == "transport and simulator")
    assert (said.found, said.needed) == (compiled.state().text, False)


# --- what it does -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["mrc", "roce"])
def test_a_compiled_run_is_the_same_run(built, transport):
    plain, fast = (_python(_DIGEST, transport, use=use).split() for use in ("0", "1"))
    assert (plain[0], fast[0]) == ("py", "so")
    assert int(plain[1]) > 20
    assert plain[1:] == fast[1:]


def test_the_tests_of_transport_and_simulator_hold_for_the_compiled_form(built):
    files = [f"tests/unit/{name}.py" for name in _ALSO_COMPILED]
    environment = {**os.environ, compiled.VARIABLE: "1"}
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
