"""Checks of this machine: missing requirements of the lab with their remedies, and the resulting back-ends."""

import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mrclab import compiled
from mrclab.lab import machine
from mrclab.lab.command.live import p4sh
from mrclab.lab.measure.validity.machine import MIN_STEAL
from mrclab.lab.run.wire.watch import steal_seconds
from mrclab.lab.run.worlds import missing_packages
from mrclab.topo.linux import processes, state
from mrclab.topo.linux.paths import RUN_DIR
from mrclab.topo.linux.switches import targets

_BUSY_S = 0.5  # seconds of work during which the time that a hypervisor takes is measured
_ONLY_ROOT = "only root can try"
_SETUP = "run `sudo make setup`"


@dataclass(frozen=True)
class MachineCheck:
    """One check. The lab cannot start where a `needed` one fails."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    needed: bool = True


def examine(run_dir: Path = RUN_DIR) -> list[MachineCheck]:
    """Run all checks, including labs in `run_dir` and elsewhere; change nothing on the machine."""
    return [
        _python(),
        _compiled(),
        _root(),
        _packages(),
        _mininet(),
        *(_program(name, f"install the package {package}, or {_SETUP}") for name, package in _PROGRAMS.items()),
        *_kernel(),
        _program("BMv2", "none needed: the embedded target is used", False, targets.BMV2_PROGRAM),
        _program("p4c", "needed only to change p4src/", False, "p4c", "p4c-bm2-ss"),
        _shell(),
        _size(),
        _steal(),
        _running(run_dir),
    ]


_PROGRAMS = {"ip": "iproute2", "nft": "nftables", "mnexec": "mininet", "ethtool": "ethtool"}


def try_faults() -> list[MachineCheck]:
    """Inject, verify and clear every kind of fault on real cables of a small fabric."""
    from mrclab.lab.faults import selftest  # noqa: PLC0415 - it needs Linux

    return [
        MachineCheck(f"fault: {v.name}", v.passed, v.detail or "works", "this kind cannot be used here", False)
        for v in selftest.kinds()
    ]


def backends(checks: list[MachineCheck]) -> dict[str, str]:
    """Return the implementation that the lab would use for each part."""
    works = {check.name: check.ok for check in checks}
    return {
        "switches": targets.choose().name,
        "loss, drop and corruption on cables": "nftables" if works["nftables netdev"] else "none",
        "delay and reordering on cables": "relay process, whose draws follow the seed",
        "p4c": "make p4" if works["p4c"] else "the committed p4src/build",
    }


def as_json(checks: list[MachineCheck]) -> dict[str, Any]:
    """Return the checks as JSON."""
    return {"ready": ready(checks), "checks": [asdict(c) for c in checks], "backends": backends(checks)}


def ready(checks: list[MachineCheck]) -> bool:
    """Return True if a lab can be brought up."""
    return all(check.ok for check in checks if check.needed)


def _python() -> MachineCheck:
    version = sys.version_info
    return MachineCheck("Python", version >= (3, 10), f"{version[0]}.{version[1]}", "use Python 3.10 or newer")


def _compiled() -> MachineCheck:
    runs, text = compiled.state()
    remedy = "" if runs else f"none needed, as plain Python does the same, slower; {compiled.remedy()}"
    return MachineCheck("transport and simulator", runs, text, remedy, False)


def _root() -> MachineCheck:
    uid = os.geteuid()
    return MachineCheck("root", uid == 0, "root" if uid == 0 else f"user {uid}", "run the command with sudo")


def _packages() -> MachineCheck:
    missing = missing_packages()
    found = f"{', '.join(missing)} missing" if missing else "there"
    return MachineCheck("Python packages of the wire", not missing, found, "pip install '.[wire]'")


def _mininet() -> MachineCheck:
    try:
        module = importlib.import_module("mininet.node")
    except (ImportError, SystemExit) as error:  # Mininet exits where one of its programs is missing
        return MachineCheck("Mininet", False, f"not importable ({error})", _SETUP)
    return MachineCheck("Mininet", True, str(Path(str(module.__file__)).resolve().parent))


def _program(name: str, remedy: str, needed: bool = True, *programs: str) -> MachineCheck:
    """Look for the first of some programs that is installed, else for the one of this name."""
    path = next(filter(None, map(shutil.which, programs or (name,))), None)
    return MachineCheck(name, path is not None, path or "not installed", remedy, needed)


def _kernel() -> Iterator[MachineCheck]:
    """Try what cables are made of, in a namespace that vanishes with the command."""
    rule = (
        "add table netdev t; add chain netdev t c { type filter hook ingress device lo priority 0; };"
        " add rule netdev t c numgen random mod 100 < 1 drop; add rule netdev t c fwd to lo"
    )
    netem = ("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    yield _in_namespace("network namespaces", "run as root, outside containers", True, "true")
    yield _in_namespace("nftables netdev", "use a kernel with nf_tables_netdev", True, "nft", rule)
    yield _in_namespace("netem", "none needed: a relay process delays and reorders", False, *netem)


def _in_namespace(name: str, remedy: str, needed: bool, *command: str) -> MachineCheck:
    if os.geteuid() != 0:
        return MachineCheck(name, True, _ONLY_ROOT, "", needed)
    works = _succeeds("unshare", "--net", *command)
    return MachineCheck(name, works, "works" if works else "does not work", remedy, needed)


def _shell() -> MachineCheck:
    path = p4sh.PYTHON
    return MachineCheck(
        "p4runtime-shell", path.exists(), str(path.parent.parent) if path.exists() else "not set up", _SETUP, False
    )


def _size() -> MachineCheck:
    here = machine.about()
    enough = here["cores"] >= 2 and here["memory_gib"] >= 1.8
    remedy = "two cores and 2 GiB keep the demo in time"
    return MachineCheck("cores and memory", enough, machine.size_text(here), remedy, False)


def _steal() -> MachineCheck:
    before, end = steal_seconds(), time.monotonic() + _BUSY_S
    while time.monotonic() < end:
        pass  # steal time is counted only while a CPU has work
    share = (steal_seconds() - before) / _BUSY_S
    found = f"a hypervisor takes {share * 100:.0f}% of them at the moment"
    remedy = "runs may come out as INVALID: give this machine more, or wait until its host is quieter"
    return MachineCheck("CPUs of its own", share <= MIN_STEAL, found, remedy, False)


def _running(run_dir: Path) -> MachineCheck:
    """Running labs and leftovers of killed ones: in this run directory, and processes that carry a lab's token."""
    found, remedies = [], []
    labs = processes.of_labs()
    for base in sorted({run_dir.parent, *labs}):
        left = f"{len(labs[base])} processes" if base in labs else "files"
        try:
            pid = state.running(base)
        except OSError:
            found.append(f"{left} in {base}, of which only root can tell more")
            continue
        if pid is not None:
            found.append(f"process {pid} runs one in {base}")
            remedies.append(f"end process {pid}")
        elif base in labs or base.exists():
            found.append(f"{left} of a killed one in {base}")
            remedies.append(f"run `mrclab --run-dir {run_dir if base == run_dir.parent else base / 'lab'} clean`")
    return MachineCheck("other labs", not found, "; ".join(found) or "none", "; ".join(remedies), False)


def _succeeds(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
