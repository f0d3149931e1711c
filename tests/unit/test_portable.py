"""Everything but the wire can be loaded where there is no Linux and nothing of the extras."""

import json
import subprocess
import sys

import pytest

WIRE = (
    "topo.linux.nodes",
    "hosts.agent.provider",
    "hosts.memory.regions",
    "hosts.nic.nic",
    "hosts.scapy_mrc",
    "hosts.wiredoc",
    "controller.p4runtime",
    "controller.wire.app",
    "controller.provisioning.prober",
    "controller.provisioning.program",
    "controller.provisioning.provision",
    "lab.lessons.p4.p4runtime",
    "lab.ui.web.server",  # the page, an extra of its own
)
"""Modules, or packages with some, that need Linux or an extra. One that no longer does leaves this list."""

_LOAD = """
import importlib, json, pkgutil, socket, sys

for name in ("fcntl", "resource", "mininet", "finsy", "grpc", "google", "scapy", "starlette", "uvicorn"):
    sys.modules[name] = None  # its import fails, also where the interpreter has loaded it for itself
if hasattr(socket, "AF_PACKET"):
    del socket.AF_PACKET
failed = {}
for top in ("controller", "events", "experiments", "hosts", "lab", "rpc", "sim", "topo"):
    package = importlib.import_module(f"mrclab.{top}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda _: None):
        if not module.name.endswith(("__main__", "libmrc.example")):  # these are programs
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                failed[module.name.removeprefix("mrclab.")] = str(error)
print(json.dumps(failed))
"""


def _python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_only_the_wire_needs_linux():
    failed = json.loads(_python(_LOAD).splitlines()[-1])
    needed = {
        place: next((wire for wire in WIRE if place == wire or place.startswith(f"{wire}.")), None) for place in failed
    }
    assert {place: failed[place] for place, wire in needed.items() if wire is None} == {}
    assert set(needed.values()) == set(WIRE)


def test_a_run_loads_only_what_runs_need():
    """Modules that other commands, reports, suites and pages need: each costs every run, and every worker's first."""
    program = "import mrclab.lab.command.cli, mrclab.lab.command.runs.scenarios, mrclab.lab.run.virtual, sys"
    loaded = set(_python(f"{program}; print(*sys.modules)").split())
    others = {
        "asyncio", "jinja2", "matplotlib", "numpy", "pandas", "prompt_toolkit", "pyarrow", "uvicorn", "starlette",
        "mrclab.experiments.paper.page", "mrclab.lab.command.live.up", "mrclab.lab.command.runs.plan",
        "mrclab.lab.prompt.session", "mrclab.lab.report.plots", "mrclab.lab.report.suitereport",
        "mrclab.lab.report.template", "mrclab.lab.capture.virtual", "mrclab.lab.report.junit", "xml.sax",
    }  # fmt: skip
    assert not others & loaded
    assert len(loaded) < 700


@pytest.mark.parametrize("module", ["lab.command.cli", "lab.run.virtual", "sim.fabric", "topo.model"])
def test_nothing_is_drawn_at_import(module):
    loaded = _python(f"import mrclab.{module}, sys; print(*sys.modules)").split()
    assert not {"matplotlib", "numpy", "grpc", "finsy"} & set(loaded)
