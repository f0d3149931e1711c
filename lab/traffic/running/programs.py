"""Driver of users' programs: started one after the other, watched, and judged by how they end.

To the runner it is a workload like any other. The counters of its QPs are in the hosts' samples; their numbers are
found while they live, and written with the record of the start once known.
"""

import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.events.traffic import FlowEnd, ProgramEnd
from mrclab.events.workloads import TrainingStep
from mrclab.hosts.collectives import steps
from mrclab.lab.errors import RunError
from mrclab.lab.history import Tail
from mrclab.lab.run.wire import programs
from mrclab.lab.run.wire.attach import LabClients
from mrclab.lab.run.world import World
from mrclab.lab.traffic.kinds.programs import Programs, ProgramSpec
from mrclab.lab.traffic.running.flows import Running

_READY_LIMIT = 30.0  # seconds until a program must have reported that it is ready
_GRACE = 2.0  # seconds in which programs may end by themselves after one has failed
_RANK_GRACE = 30.0  # and ranks, which report who failed


@dataclass
class _Process:
    spec: ProgramSpec
    process: "subprocess.Popen[bytes]"
    output: Path
    began: float  # on the world's clock
    steps: int = 0

    def __post_init__(self) -> None:
        self.tail = Tail(self.output)

    def printed(self) -> str:
        return self.output.read_text(errors="replace")


class RunningPrograms(Running):
    """Programs from start to end."""

    entry: Programs

    def __init__(self, world: World, entry: Programs, qps: int, seed: int) -> None:
        super().__init__(world, entry, qps, seed)
        if not isinstance(world, LabClients):
            raise RunError(f"{entry.name}: programs need hosts that are processes; run it on the wire")
        self._lab: LabClients = world
        self._processes: list[_Process] = []
        self._pairs: dict[str, set[tuple[int, int]]] = {}  # flow → QPs at both ends
        self._error = ""
        self._failed_at: float | None = None
        self._noted = False  # True once the QPs of all flows are known

    def prepare(self, absent: Collection[str] = ()) -> None:
        """Make the folder for their files, and connect their hosts over TCP; RunError where one is absent."""
        if absent:
            raise RunError(f"{self.name}: the agent of {min(absent)} is down")
        self._folder.mkdir(parents=True, exist_ok=True)
        for host in dict.fromkeys(self.entry.program_hosts):
            programs.join(self._lab, host)
        self.ready = True

    @property
    def _folder(self) -> Path:
        return self._lab.files.absolute() / self.name

    def start(self, at: float) -> None:
        """Start all ranks; or the first program: each other one follows once the one before is ready."""
        self.began = max(at, self._world.now)
        for _ in self.entry.program_hosts if self.entry.ranks is not None else (None,):
            self._launch()

    def _launch(self) -> None:
        place = len(self._processes)
        spec = self.entry.commands[place]
        words = shlex.split(spec.command)
        for host in self._lab.fabric.hosts:
            words = [word.replace(f"{{{host.name}}}", programs.address(host.number)) for word in words]
        command, environment = programs.prepare(self._lab, spec.host, words)
        if self.entry.ranks is not None:
            numbers = [self._lab.fabric.host(host).number for host in self.entry.program_hosts]
            environment |= programs.rank_environment(numbers, place)
        output = self._lab.run_dir / "log" / f"{self.name}-{place + 1}-{spec.host}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                env={**environment, "MRCLAB_FILES": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(_Process(spec, process, output, self._world.now))

    def _go_on(self) -> None:
        """Start the next program if the last one is ready; if it never will be, the traffic has failed."""
        while len(self._processes) < len(self.entry.program_hosts) and not self._error:
            last = self._processes[-1]
            if not re.search(last.spec.ready or "", last.printed()):
                too_long = self._world.now > last.began + _READY_LIMIT * self._lab.slowness.stretch
                if last.process.poll() is not None or too_long:
                    self._error = f"{last.spec.host}: {last.spec.command} did not print {last.spec.ready!r}"
                return
            self._launch()

    @property
    def over(self) -> bool:
        """True if all have ended, or one has failed and the others had their time."""
        started = len(self._processes) == len(self.entry.program_hosts)
        if started and all(one.process.poll() is not None for one in self._processes):
            return True
        failed = bool(self._error) or any(one.process.poll() for one in self._processes)
        if failed and self._failed_at is None:
            self._failed_at = self._world.now
        grace = _GRACE if self.entry.ranks is None else _RANK_GRACE * self._lab.slowness.stretch
        return self._failed_at is not None and self._world.now > self._failed_at + grace

    def share(self, now: float) -> float:
        """Share of its steps that every rank has done; if unknown, 0 until the end.

        Also records new QPs and steps.
        """
        if self.running:
            self._go_on()
            self._note_qps()
            self._note_steps()
        if self.ended is not None:
            return 1.0
        steps = self.entry.ranks.steps if self.entry.ranks is not None else None
        done = min((one.steps for one in self._processes), default=0)
        return min(done / steps, 0.9999) if steps else 0.0

    def _note_steps(self) -> None:
        """Record the steps that programs have reported since the last call."""
        for one in self._processes:
            for line in "\n".join(one.tail.lines()).splitlines():
                step = steps.parse(line)
                if step is not None:
                    one.steps += 1
                    self._world.record(TrainingStep(traffic=self.name, host=one.spec.host, **step), step["ended"])

    def _note_qps(self) -> None:
        """Find the QPs that connect the programs' hosts; ranks make all theirs at the start: once found, no more."""
        if self._noted:
            return
        addresses = {host.name: host.address for host in self._lab.fabric.hosts}
        rows = {name: self._rows(name) for name in self.hosts}
        for name, state in self._flows.items():
            flow = state.flow
            here = [row for row in rows[flow.source] if row["peer"] == addresses[flow.destination]]
            there = {row["qp"]: row for row in rows[flow.destination] if row["peer"] == addresses[flow.source]}
            for mine, theirs in zip(here, there, strict=False):
                self._pairs.setdefault(name, set()).add((mine["qp"], theirs))
        self._noted = self.entry.ranks is not None and len(self._pairs) == len(self._flows)

    def _rows(self, host: str) -> list[dict[str, Any]]:
        try:
            return list(self._world.call(host, "stats").get("qps", []))
        except RunError:
            return []  # its agent is gone; `lose` says so

    def take(self, host: str, event: Mapping[str, Any]) -> None:
        """Do nothing: agents send no events of programs."""

    def lose(self, host: str, why: str) -> None:
        """Do nothing: the program of a lost agent fails by itself."""
        self.ready = self.ready and host not in self.hosts

    def finish(self, error: str = "") -> None:
        """End the programs that still run, collect their files, and record their ends."""
        self._note_qps()
        self._note_steps()
        if self._kill():
            error = error or self._error or "another program of this traffic failed"
        self._record_ends()
        ended = self.ended = self._world.now
        began = ended if self.began is None else self.began
        self._collect()
        worst = next((one for one in self._processes if one.process.returncode), None)
        if worst is not None and not self._error:
            status = worst.process.returncode
            how = f"ended with status {status}: {_reason(worst.printed())}" if status > 0 else _by_signal(status)
            self._error = f"{worst.spec.host}: {worst.spec.command} {how}"
        error = self._error or error
        self._record_start(began, {flow: sorted(pairs) for flow, pairs in self._pairs.items()}, None)
        status = max((abs(one.process.returncode or 0) for one in self._processes), default=0)
        took = round(ended - began, 9)
        for flow in self._flows:
            end = FlowEnd(traffic=self.name, flow=flow, bytes=0, seconds=took, error=error, exit_status=status)
            self._world.record(end, ended)
        self._record_end([error] if error else [], exit_status=status)

    def abandon(self) -> None:
        """End the programs that still run, before the lab goes from under them, and collect their files."""
        self._kill()
        self._collect()

    def _kill(self) -> bool:
        """End the programs that still run; False if there are none."""
        running = [one.process for one in self._processes if one.process.poll() is None]
        for process in running:
            process.kill()
            process.wait()
        return bool(running)

    def _record_ends(self) -> None:
        """Record how each program ended: a negative exit status is the signal that ended it."""
        for place, one in enumerate(self._processes):
            status = one.process.returncode
            reason = "" if not status else _reason(one.printed()) if status > 0 else _by_signal(status)
            self._world.record(
                ProgramEnd(traffic=self.name, host=one.spec.host, place=place, exit_status=status, error=reason)
            )

    def _collect(self) -> None:
        """Copy the files of the programs next to their output; folders, links and pipes are left out."""
        for pattern in self.entry.files:
            for path in sorted(self._folder.glob(pattern)):
                if path.is_file() and not path.is_symlink():
                    name = "-".join((self.name, *path.relative_to(self._folder).parts))
                    shutil.copyfile(path, self._lab.run_dir / "log" / name)

    def bad_paths(self, rows: Mapping[str, list[dict[str, Any]]]) -> int:
        """Return 0: their QPs end with them."""
        return 0


def _by_signal(status: int) -> str:
    return f"ended by signal {-status}"


def _reason(output: str) -> str:
    """Return the line of a program's output that most likely gives the reason of its failure."""
    lines = [line for line in output.splitlines() if line.strip() and steps.parse(line) is None]
    errors = [line for line in lines if re.search(r"\w(Error|Exception)\b", line)]
    return (errors or lines or [""])[-1].strip()
