"""Imports point one way, from package to package and from module to module, and what needs Linux stays on the wire."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from mrclab import HOME

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PURE_TOPO = {
    "config",
    "economy",
    "errors",
    "fabricfile",
    "input",
    "linkcheck",
    "model",
    "names",
    "numbers",
    "process",
    "spec",
    "srv6",
}
MAY_IMPORT = {
    "events": set(),
    "rpc": set(),
    "softswitch": set(),
    "topo": {"rpc"},
    "controller": {"events", "rpc", "topo"},
    "hosts": {"rpc", "topo"},
    "sim": {"controller", "events", "hosts", "rpc", "softswitch", "topo"},
    "lab": {"controller", "events", "experiments", "hosts", "rpc", "sim", "softswitch", "topo"},
    "experiments": {"controller", "hosts", "lab", "rpc", "sim", "topo"},
    "bench": {"controller", "hosts", "lab", "rpc", "sim", "softswitch", "topo"},
}
NOT_FOR_VIRTUAL_TIME = (
    "fcntl", "finsy", "grp", "grpc", "matplotlib", "mininet", "psutil", "pwd", "resource", "scapy",
    "termios",
)  # fmt: skip

NOT_FOR_A_RUN = (
    "asyncio", "jinja2", "matplotlib", "numpy", "prompt_toolkit", "pyarrow", "starlette", "textual",
    "typer", "unittest",
)  # fmt: skip
"""Packages that take long to load, and that no run in virtual time without a report needs."""

NOT_FOR_A_ROW = (*NOT_FOR_A_RUN, "rich")
_OF_UUID = ("signal", "subprocess") if sys.version_info >= (3, 11) else ()  # Python 3.10's uuid loads them
NOT_FOR_A_LOAD = (*NOT_FOR_A_ROW, *_OF_UUID, "csv", "email", "shutil", "tempfile", "zipfile")
MODULES_OF_A_RUN, MODULES_OF_A_ROW, MODULES_OF_A_LOAD = 330, 308, 145
"""Most modules of this project that such a run, a row of a campaign, and a load of `mrclab bench sim` load."""

SMALL = "{name: small, world: sim, report: false, traffic: [{kind: permutation, name: load, size: 100 KiB}]}"


class Import(NamedTuple):
    importer: str
    imported: str
    when_loaded: bool  # not only for the type checker, and not only inside a function


def name_of(path: Path) -> str:
    return ".".join(("mrclab", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {name_of(path): path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py")}


def imports(module: str) -> Iterator[Import]:
    def visit(node: ast.AST, when_loaded: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            if isinstance(child, ast.Import):
                found = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                inner = [f"{child.module}.{alias.name}" for alias in child.names]
                found = [name if name in MODULES else str(child.module) for name in inner]
            else:
                found = []
            yield from (Import(module, name, when_loaded) for name in found if name in MODULES)
            yield from visit(child, when_loaded and not later)

    yield from visit(ast.parse(MODULES[module].read_text(encoding="utf-8")), True)


@pytest.fixture(scope="module")
def edges() -> list[Import]:
    return [edge for module in MODULES for edge in imports(module)]


def package(module: str) -> str:
    return module.split(".")[1]


def test_packages_import_only_what_stands_below_them(edges):
    assert len(edges) > 1000
    wrong = [
        f"{edge.importer} imports {edge.imported}"
        for edge in edges
        if package(edge.imported) not in MAY_IMPORT[package(edge.importer)] | {package(edge.importer)}
    ]
    assert wrong == []


def test_controller_and_hosts_know_only_the_pure_model_of_the_fabric(edges):
    wrong = [
        f"{edge.importer} imports {edge.imported}"
        for edge in edges
        if package(edge.importer) in {"controller", "hosts"}
        and package(edge.imported) == "topo"
        and edge.imported.split(".")[2] not in PURE_TOPO
    ]
    assert wrong == []


def test_only_the_command_knows_the_experiments_and_they_know_the_lab(edges):
    wrong = [
        edge.importer for edge in edges if (package(edge.importer), package(edge.imported)) == ("lab", "experiments")
    ]
    assert {".".join(name.split(".")[:3]) for name in wrong} == {"mrclab.lab.command"}


def test_no_module_waits_for_itself_to_be_loaded(edges):
    graph = defaultdict(set)
    for edge in edges:
        if edge.when_loaded and edge.importer != edge.imported:
            graph[edge.importer].add(edge.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")


def test_the_command_and_virtual_time_load_without_linux_and_without_p4runtime():
    simulator = [name for name in MODULES if package(name) == "sim"]
    lab = ["mrclab.lab.command.cli", "mrclab.lab.run.virtual", "mrclab.lab.testing.pytest_plugin"]
    program = (
        "import importlib, sys\n"
        f"for name in {NOT_FOR_VIRTUAL_TIME!r}:\n"
        "    sys.modules[name] = None\n"
        f"for name in {[*simulator, *lab]!r}:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=HOME)
    assert done.returncode == 0, done.stderr


RUN = """
import sys
from mrclab.lab.command.entry import main
sys.argv = ["mrclab", "run", "small.yaml"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
    sys.stderr.write("modules: " + " ".join(sys.modules))
"""

ROW = """
import sys
from pathlib import Path
from mrclab.experiments.campaign import work
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
made = runner.measure(scenario.load(Path("small.yaml")), Path(), lambda *_: None, lambda _: None)
assert made.ok
sys.stderr.write("modules: " + " ".join(sys.modules))
"""


LOAD = """
import os, sys
os._exit = lambda _: sys.stderr.write("modules: " + " ".join(sys.modules))
sys.argv = ["load", '{"hosts": 16, "traffic": "incast", "size": 4096}']
from mrclab import starting
starting.quickly()
from mrclab.bench.sim import load
load.main()
"""


@pytest.mark.parametrize(
    ("program", "without", "most"),
    [
        (RUN, NOT_FOR_A_RUN, MODULES_OF_A_RUN),
        (ROW, NOT_FOR_A_ROW, MODULES_OF_A_ROW),
        (LOAD, NOT_FOR_A_LOAD, MODULES_OF_A_LOAD),
    ],
)
def test_a_run_a_row_of_a_campaign_and_a_load_load_little(program, without, most, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    environment = {**os.environ, "MRCLAB_COMPILED": "0", "PYTHONPATH": str(HOME)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    said, mark, names = done.stderr.rpartition("modules: ")
    assert mark, said
    loaded = names.split()
    assert {name.split(".")[0] for name in loaded} & set(without) == set()
    assert sum(name.startswith("mrclab.") for name in loaded) <= most
