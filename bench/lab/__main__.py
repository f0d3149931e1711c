"""Benchmark of bring-up until verified, by parts, from 4 to 128 switches: ``sudo mrclab bench lab``.

Namespaces of all nodes; cables; switch processes until each answers; the controller until hosts can be started; agents
until each answers; the rest until all switches hold their tables; and until every cable is verified. Parts overlap
in the machine: imports of the processes to come take CPU while namespaces are made.
"""

import argparse
import contextlib
import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import fmean

from mrclab.lab.command import ending
from mrclab.lab.run.wire.watch import cpu_seconds
from mrclab.lab.run.wire.wireworld import check_root, wire_world
from mrclab.topo.linux import kernel, processes
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

PARTS = {
    "nodes": "namespaces",
    "cables": "cables",
    "switches": "switches answer",
    "controller": "controller",
    "agents": "agents",
    "switches provisioned": "provisioned",
    "cables verified": "verified",
}
"""Stages of bring-up, in order: name in the lab → name in the table."""

RUN_DIR = Path("/run/mrclab-bench/lab")
_SHAPES = {4: (1, 2, 2), 16: (2, 4, 4), 64: (4, 8, 8), 128: (4, 16, 16)}  # switches → planes, T0s and T1s of each
_KERNEL_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Part:
    """Wall-clock and CPU seconds of a stage."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of one process, MB: private without receive rings; the rings; proportional share of everything."""

    private: float
    rings: float
    pss: float


@dataclass(frozen=True)
class BringUp:
    """Measured bring-up; memory is the mean of the processes of a kind (`switch`, `agent`, `controller`)."""

    switches: int
    hosts: int
    cables: int
    target: str
    parts: dict[str, Part]
    memory: dict[str, ProcessMemory]

    @property
    def total(self) -> Part:
        """All parts together."""
        return Part(sum(part.wall for part in self.parts.values()), sum(part.cpu for part in self.parts.values()))


class Stopwatch:
    """Progress callback that records the time whenever another stage begins."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._stage = ""
        self._began = self._now()
        self.parts = dict.fromkeys(PARTS.values(), Part(0.0, 0.0))

    def progress(self, stage: str, _done: int, _total: int) -> None:
        """Record a step of bring-up; a stage without a step took no time."""
        if stage != self._stage:
            self.lap(stage)

    def lap(self, stage: str) -> None:
        """End the current stage."""
        now = self._now()
        if self._stage in PARTS:
            before = self.parts[PARTS[self._stage]]
            wall, cpu = before.wall + now.wall - self._began.wall, before.cpu + now.cpu - self._began.cpu
            self.parts[PARTS[self._stage]] = Part(wall, cpu)
        if self._stage or stage == next(iter(PARTS)):
            self._stage, self._began = stage, now

    def _now(self) -> Part:
        own = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        pids = processes.of_labs().get(self._base.resolve(), ())
        return Part(time.monotonic(), own + sum(cpu_seconds(pid, with_children=True) or 0.0 for pid in pids))


def fabric(switches: int) -> Fabric:
    """Return the fabric of a size, with one host per T0. KeyError for an unknown size."""
    planes, t0s, t1s = _SHAPES[switches]
    return Fabric(FabricSpec(planes=planes, t0s=t0s, t1s=t1s, hosts_per_t0=1))


def bring_up(switches: int, target: str | None = None, run_dir: Path = RUN_DIR) -> BringUp:
    """Bring a lab up, verified, and take it down again. Raises the errors of a lab that does not come up."""
    _wait_for_the_kernel(f"{run_dir.parent.name}-wait-{os.getpid()}")
    model = fabric(switches)
    watch = Stopwatch(run_dir.parent)
    with wire_world(model, watch.progress, target=target, run_dir=run_dir) as lab:
        watch.lap("")
        weights: dict[str, list[ProcessMemory]] = {}
        for name, pid in lab.emulation.processes().items():
            kind = "switch" if model.has_switch(name) else "agent" if model.has_host(name) else name
            weights.setdefault(kind, []).append(_memory_of(pid))
        memory = {kind: _mean(some) for kind, some in weights.items()}
        name = lab.emulation.target.name
    return BringUp(switches, len(model.hosts), len(model.links), name, watch.parts, memory)


def _wait_for_the_kernel(name: str) -> None:
    """Wait until the kernel has removed the namespaces of earlier labs, as it makes none meanwhile.

    It removes them later, in order: when one more that is deleted last is gone, all are. Its end of a veth pair goes
    with it, and so does ours, which we see.
    """
    with contextlib.ExitStack() as ends:
        spaces = []
        for place in (f"{name}-here", f"{name}-gone"):
            ends.callback(kernel.delete_namespace, place)
            spaces.append(kernel.create_namespace(place))
        here, gone = spaces
        ends.callback(os.close, here)
        with kernel.LinkSocket(here) as links:
            links.add_pairs([kernel.VethPair("here", "gone", 1500, space=gone)])
            os.close(gone)
            kernel.delete_namespace(f"{name}-gone")
            until = time.monotonic() + _KERNEL_TIMEOUT
            while "here" in links.indexes() and time.monotonic() < until:
                time.sleep(0.02)


def _memory_of(pid: int) -> ProcessMemory:
    kilobytes: Counter[str] = Counter()
    rings = False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if not words[0].endswith(":"):  # the head of a mapping: addresses, rights, …, file
            rings = len(words) > 5 and words[5].startswith("socket:")
        elif words[0] in {"Private_Clean:", "Private_Dirty:"}:
            kilobytes["rings" if rings else "private"] += int(words[1])
        elif words[0] == "Pss:":
            kilobytes["pss"] += int(words[1])
    return ProcessMemory(*(kilobytes[what] / 1024 for what in ("private", "rings", "pss")))


def _mean(some: list[ProcessMemory]) -> ProcessMemory:
    return ProcessMemory(*map(fmean, zip(*map(astuple, some), strict=True)))


def table(results: Sequence[BringUp]) -> str:
    """The results as text."""
    lines = ["switches (target)    " + "".join(f"{f'{r.switches} ({r.target})':>15}" for r in results)]
    lines.append("hosts, cables        " + "".join(f"{f'{r.hosts}, {r.cables}':>15}" for r in results))
    lines.append("seconds, of CPU      " + f"{'':>15}" * len(results))
    rows = {part: [r.parts[part] for r in results] for part in PARTS.values()} | {"total": [r.total for r in results]}
    lines += [f"  {name:19s}" + "".join(f"{p.wall:8.2f} {p.cpu:6.2f}" for p in row) for name, row in rows.items()]
    lines.append("MB of each process   private, Pss; receive rings, which are private too")
    for kind in ("switch", "agent", "controller"):
        weights = [r.memory[kind] for r in results]
        shown = "".join(f"{f'{w.private:.1f}, {w.pss:.1f}; {w.rings:.1f}':>17}" for w in weights)
        lines.append(f"  {kind:17s}{shown}")
    return "\n".join(line.rstrip() for line in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="mrclab bench lab", description="time and memory of a lab that comes up")
    parser.add_argument(
        "--switches", type=int, action="append", choices=list(_SHAPES), help="only this size; may be given again"
    )
    parser.add_argument("--target", choices=["soft", "bmv2"], help="the P4 switch (default: as a lab chooses it)")
    parser.add_argument("--rounds", type=int, default=1, help="bring-ups of each size, of which the quickest counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give 1 or more")
    check_root()
    results = [
        min((bring_up(size, options.target) for _ in range(options.rounds)), key=lambda one: one.total.wall)
        for size in options.switches or _SHAPES
    ]
    text = json.dumps([asdict(result) for result in results]) if options.json else table(results)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    ending.run(main)
