"""The compiled form of transport and simulator: when it counts, and that it does what the sources do."""

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
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
    "test_provider_programs",
    "test_roce_dcqcn",
    "test_sim_clock",
    "test_sim_nic",
)


def _python(program: str, *words: str, use: str) -> str:
    environment = {**os.environ, compiled.VARIABLE: use}
    argv = [sys.executable, "-c", program, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=ROOT, env=environment).stdout.strip()


@pytest.fixture(scope="module")
def built() -> None:
    """Skips where there is no build of these sources; one that does not run is a failure, as it is left alone."""
    if (text := _python(_STATE, use="")) != "compiled":
        assert "the build" not in text
        pytest.skip(f"what runs is {text}")


_EACH_FIRST = """
import importlib, json, os
from mrclab import compiled
modules = json.loads((compiled.folder() / compiled.MANIFEST).read_text())["modules"]
for name in modules:
    child = os.fork()
    if not child:
        importlib.import_module(name)
        os._exit(0)
    if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        print(name, status)
"""


def test_any_module_can_be_the_first_that_is_imported(built):
    """A type that a NamedTuple's field names and nobody has imported yet is none, and the process ends there."""
    assert _python(_EACH_FIRST, use="1") == ""


_FREED = """
import gc, sys, tempfile, weakref
import mrclab
import mrclab.hosts.mrc.requestor as requestor
from mrclab.sim.world import SimWorld

worlds = weakref.WeakSet()
made = SimWorld.__init__
SimWorld.__init__ = lambda self, *args, **more: (worlds.add(self), made(self, *args, **more))[1]
scenario = mrclab.scenario(
    fabric={"planes": 1, "t0s": 1, "t1s": 1, "hosts_per_t0": 2, "link": {"rate": "100 Gb/s", "delay": "600ns"}},
    transport={"kind": sys.argv[1]},
    traffic=[{"name": "file", "kind": "write", "from": "h1", "to": "h2", "size": "64 KiB"}],
    expect=[{"kind": "integrity"}],
)
assert mrclab.run(scenario).passed and mrclab.run(scenario).passed
gc.unfreeze()
gc.collect()
print(requestor.__file__.rsplit(".", 1)[1], len(worlds))
"""


@pytest.mark.parametrize("transport", ["mrc", "roce"])
def test_a_world_is_freed_after_its_run(built, transport):
    """The collector sees every reference of a world's objects exactly once."""
    assert _python(_FREED, transport, use="1") == "so 0"


_SCRIPT = """
import sys
sys.path.insert(0, "setup")
import compiled
print("\\n".join(map(str, compiled.chosen())))
"""


def test_no_class_declares_an_attribute_of_its_base_again():
    """mypyc visits such an attribute twice, so that the collector frees nothing that hangs on it."""
    bases: dict[str, list[str]] = {}
    declared: dict[str, set[str]] = {}
    for path in _python(_SCRIPT, use="0").splitlines():
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                found = [inner.target for inner in ast.walk(node) if isinstance(inner, ast.AnnAssign)]
                declared[node.name] = {one.attr for one in found if isinstance(one, ast.Attribute)}
                declared[node.name] |= {one.target.id for one in node.body if _is_field(one)}  # type: ignore[attr-defined]
    assert len(declared) > 100

    def above(name: str) -> set[str]:
        return set().union(*(declared.get(base, set()) | above(base) for base in bases.get(name, ())))

    assert {name: twice for name in declared if (twice := declared[name] & above(name))} == {}


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "ClassVar" not in ast.unparse(node)


# --- when a build counts ----------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A tree with one source and a build of it whose library is none."""
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    source = tmp_path / "mrclab" / "sim" / "clock.py"
    source.parent.mkdir(parents=True)
    source.write_text("SECOND = 1\n")
    build = compiled.folder(tmp_path)
    build.mkdir(parents=True)
    modules = {"mrclab.sim.clock": "lib/clock.so", compiled.LIBRARY: "library.so"}
    known = compiled.Manifest({"mrclab/sim/clock.py": compiled.digest(source)}, modules, len(_GARBAGE))
    (build / "library.so").write_bytes(_GARBAGE)
    (build / compiled.MANIFEST).write_text(json.dumps(known._asdict()))
    return tmp_path


_GARBAGE = b"\x7fELF of another machine"


def test_without_a_build_the_sources_run(tmp_path, monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    finder = compiled.Finder(tmp_path)
    assert finder.state == (False, "plain Python, as nothing is compiled")
    assert finder.find_spec("mrclab.sim.clock") is None


def test_a_build_of_other_sources_is_left_alone(tree):
    (tree / "mrclab" / "sim" / "clock.py").write_text("SECOND = 2\n")
    finder = compiled.Finder(tree)
    assert finder.find_spec("mrclab.sim.clock") is None
    assert finder.state == (False, "plain Python, as sim/clock.py changed since it was compiled")


def test_a_build_that_does_not_load_is_left_alone(tree):
    assert "do not load" in compiled.Finder(tree).state.text
    compiled.folder(tree).joinpath("library.so").unlink()
    assert "do not load" in compiled.Finder(tree).state.text
    compiled.folder(tree).joinpath(compiled.MANIFEST).write_text("half of it")
    assert compiled.Finder(tree).state == compiled.Finder(tree.parent).state


def test_half_a_library_is_not_handed_to_the_loader(tree):
    compiled.folder(tree).joinpath("library.so").write_bytes(_GARBAGE[:-1])
    text = "plain Python, as the compiled modules do not load (library.so is not whole)"
    assert compiled.Finder(tree).state == (False, text)


def test_a_build_for_another_python_is_not_looked_at(tree):
    build = compiled.folder(tree)
    build.rename(build.with_name("cpython-27m-pdp11"))
    assert compiled.Finder(tree).state == (False, "plain Python, as nothing is compiled")


def test_the_environment_says_whether_it_may_and_whether_it_must(tree, monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert compiled.Finder(tree).state == (False, "plain Python, as MRCLAB_COMPILED is 0")
    assert compiled.remedy() == "unset MRCLAB_COMPILED"
    monkeypatch.setenv(compiled.VARIABLE, "1")
    with pytest.raises(RuntimeError, match="MRCLAB_COMPILED is 1, but what runs is plain Python, as"):
        assert compiled.Finder(tree).state


def test_where_it_must_run_and_nothing_is_compiled_no_busy_module_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, "1")
    finder = compiled.Finder(tmp_path)
    assert finder.find_spec("mrclab.topo.model") is None
    some = (
        "sim.clock",
        "sim.clock",
        "hosts.mrc.qp",
        "hosts.rdma.memory",
        "hosts.roce.endpoint",
        "hosts.workloads.span",
    )
    for name in some:
        with pytest.raises(RuntimeError, match="what runs is plain Python, as nothing is compiled; unset it, or: "):
            finder.find_spec(f"mrclab.{name}")


def test_the_command_refuses_in_one_sentence_where_it_must_run_and_cannot(small):
    program = "from mrclab.lab.command.entry import main; main()"
    (small / "lab" / "command").mkdir(parents=True)
    shutil.copy(ROOT / "lab" / "command" / "entry.py", small / "lab" / "command")
    argv = [sys.executable, "-P", "-c", program] if sys.version_info >= (3, 11) else [sys.executable, "-c", program]
    environment = {**os.environ, compiled.VARIABLE: "1", "PYTHONPATH": str(small)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=small, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("mrclab: MRCLAB_COMPILED is 1, but what runs is plain Python, as nothing is compiled; ")


def test_a_build_inside_the_package_is_what_counts(tree):
    installed = tree / "mrclab" / compiled.INSTALLED / compiled.TAG
    compiled.folder(tree).rename(tree / "aside")
    installed.parent.mkdir()
    (tree / "aside").rename(installed)
    assert compiled.folder(tree) == installed
    assert "do not load" in compiled.Finder(tree).state.text


def test_an_old_setuptools_is_one_sentence(monkeypatch):
    monkeypatch.setattr(compiled, "SETUPTOOLS", 9999)
    if not compiled.missing_compiler():
        assert compiled.missing_requirement().endswith("is too old (pip install 'setuptools>=9999')")


def test_doctor_says_what_runs(monkeypatch):
    monkeypatch.setattr(doctor, "_BUSY_S", 0.0001)
    said = next(check for check in doctor.examine() if check.name == "transport and simulator")
    assert (said.found, said.needed) == (compiled.state().text, False)
    assert said.remedy.endswith("" if said.ok else compiled.remedy())


# --- how one is made --------------------------------------------------------------------------------------------------

_SMALL = {
    "pyproject.toml": "[tool.mypy]\nstrict = true\n",
    "hosts/nic/interface.py": '"""What the script wants to be there."""\n\nPORTS = 4\n',
    "topo/srv6.py": '"""And this."""\n\nPLANES = 4\n',
    "sim/ticks.py": "def twice(ticks: int) -> int:\n    return 2 * ticks\n",
    "bench/sim/common.py": "def SimLoad(*load): return load\n",
    "bench/sim/load.py": """
from mrclab import compiled
from mrclab.sim import ticks

def simulate(load):
    return {"packets": ticks.twice(load[0]), "retransmitted": compiled.state().runs, "completions": []}
""",
}


@pytest.fixture
def small(tmp_path) -> Path:
    """A tree with two sources to compile, where what is run tells the two forms apart."""
    for name in ("mrclab/__init__.py", "mrclab/compiled.py", "setup/compiled.py", "setup/links.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in _SMALL.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in ("hosts", "hosts/nic", "sim", "bench", "bench/sim", "topo"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
    return tmp_path


def _make(tree: Path, *words: str, times: int = 1, **environment: str) -> list[tuple[int, list[str]]]:
    """Status and lines of the script that compiles, started so many times at once."""
    inherited = {name: value for name, value in os.environ.items() if name not in {compiled.VARIABLE, "CC"}}
    argv = [sys.executable, "setup/compiled.py", *words]
    started = [
        subprocess.Popen(argv, cwd=tree, env={**inherited, **environment}, stdout=subprocess.PIPE, text=True)
        for _ in range(times)
    ]
    said = [process.communicate()[0].splitlines() for process in started]
    return [(process.returncode, lines) for process, lines in zip(started, said, strict=True)]


_PLAIN = "setup: transport and simulator run as plain Python, as"


def test_without_a_compiler_setup_goes_on_after_one_line(small):
    said = [f"{_PLAIN} there is no C compiler (no-such-cc; package gcc)"]
    assert _make(small, CC="no-such-cc") == [(0, said)]
    assert _make(small, "--strict", CC="no-such-cc") == [(1, said)]
    assert _make(small, MRCLAB_COMPILED="0") == [(0, [])]


needs_compiler = pytest.mark.skipif(bool(compiled.missing_requirement()), reason=compiled.missing_requirement())


@needs_compiler
def test_a_build_that_failed_is_said_in_one_line_and_not_tried_again_by_itself_not_even_by_who_waited(small):
    log = compiled.folder(small).relative_to(small) / "compile.log"
    reason = f"{_PLAIN} compiling failed; see {log}"
    waited, tried = sorted(_make(small, CC="false", times=2), key=lambda one: len(one[1]))
    assert (tried[0], tried[1][1:]) == (0, [reason])
    assert waited == (0, [f"{reason} (`make compiled` tries again)"])
    assert "non-zero exit status 1" in (small / log).read_text()
    assert not [path for path in compiled.folder(small).iterdir() if path.is_dir()]
    (small / "sim" / "ticks.py").write_text(_SMALL["sim/ticks.py"] + "\n\nSECOND = 1\n")
    assert len(_make(small, CC="false")[0][1]) == 2


@needs_compiler
def test_a_build_whose_run_is_another_is_removed_before_anybody_can_have_it(small, monkeypatch):
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    reason = "a run of the build differs from one of the sources"
    ((status, said),) = _make(small)
    assert (status, said[1:]) == (0, [f"{_PLAIN} {reason}"])
    assert compiled.Finder(small).find_spec("mrclab.sim.ticks") is None
    known = compiled.read(compiled.folder(small) / compiled.MANIFEST)
    assert (known.modules, known.reason) == ({}, reason)
    assert not [path for path in compiled.folder(small).iterdir() if path.is_dir()]


_PACKAGE = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["setup"]
[project]
name = "small"
version = "1"
[tool.setuptools]
packages = ["mrclab"]
cmdclass = { build_py = "setup.backend.BuildPy", bdist_wheel = "setup.backend.BdistWheel" }
"""
_WHEEL = """
import sys
sys.path.insert(0, "setup")
import backend, compiled as script
from mrclab import compiled as form
if "made" in sys.argv:  # as if it had been
    library = f"0123/lib/{form.LIBRARY}.so"
    (form.folder() / library).parent.mkdir(parents=True)
    (form.folder() / library).write_bytes(b"code")
    sources = {**script.reached(script.chosen()), "setup/compiled.py": form.digest(form.TREE / "setup" / "compiled.py")}
    script.write(form.folder() / form.MANIFEST, form.Manifest(sources, {form.LIBRARY: library}, 4))
print(backend.get_requires_for_build_wheel())
print(backend.build_wheel("."))
"""


@pytest.mark.parametrize(("made", "use"), [(True, ""), (False, ""), (True, "0"), (False, "1")])
def test_a_wheel_has_the_build_where_there_is_one(small, made, use):
    (small / "pyproject.toml").write_text(_PACKAGE)
    shutil.copy(ROOT / "setup" / "backend.py", small / "setup")
    environment = {**os.environ, compiled.VARIABLE: use, "CC": "no-such-cc"}
    argv = [sys.executable, "-c", _WHEEL, *(["made"] if made else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=small, env=environment)
    if use == "1":
        assert done.returncode == 1
        assert "mrclab: MRCLAB_COMPILED is 1, but there is no C compiler (no-such-cc; package gcc)" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    plain = "mrclab: the package is plain Python, as there is no C compiler (no-such-cc; package gcc)"
    assert "[]" in said  # nothing to compile with is fetched where there is no compiler
    assert (plain in said) == (not made)
    with zipfile.ZipFile(small / said[-1]) as wheel:
        inside = {name: wheel.read(name) for name in wheel.namelist() if f"/{compiled.INSTALLED}/" in name}
    if not made or use == "0":
        assert (said[-1], inside) == ("small-1-py3-none-any.whl", {})
        return
    assert said[-1].startswith(f"small-1-cp{sys.version_info.major}{sys.version_info.minor}-cp")
    home = f"mrclab/{compiled.INSTALLED}/{compiled.TAG}"
    assert inside.pop(f"{home}/0123/lib/{compiled.LIBRARY}.so") == b"code"
    known = json.loads(inside.pop(f"{home}/{compiled.MANIFEST}"))
    assert (set(known["sources"]), inside) == ({"mrclab/hosts/nic/interface.py", "mrclab/topo/srv6.py"}, {})


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
