"""Two hosts joined in memory, each with a provider that C programs can connect to; and a C compiler for them.

Time is simulated and passes two milliseconds a turn, while programs wait or once they had their share of a processor:
one that other work keeps from running must not find that much has happened meanwhile.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from mrc_sim import Simulation

from mrclab.hosts.agent.provider.server import Provider

ROOT = Path(__file__).parents[2]
LIBMRC = ROOT / "hosts" / "libmrc"
PROGRAMS = ROOT / "tests" / "libmrc"
TURN_S = 0.002  # simulated, between two looks at the programs
SHARE_NS = 100_000  # that a program which wants to run has run in a turn before time passes
TIMEOUT_S = 240.0  # on a machine that has other things to do

COMPILER = shutil.which("cc") or shutil.which("gcc")
VERBS_H = Path("/usr/include/infiniband/verbs.h")

needs_compiler = pytest.mark.skipif(
    COMPILER is None or not VERBS_H.exists(), reason="needs a C compiler and libibverbs-dev (verbs.h)"
)


def build(folder: Path, *arguments: str) -> Path:
    """lib_mrc.so as make builds it."""
    done = subprocess.run(
        ["make", "-C", str(LIBMRC), f"BUILD={folder}", "CFLAGS=-O1 -g -Werror", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return folder / "lib_mrc.so"


def compiled(source: Path, library: Path, headers: Path = LIBMRC / "include") -> Path:
    """A program of ours, linked to the library where it lies."""
    target = library.parent / source.stem
    command = [str(COMPILER), "-std=gnu11", "-O1", "-g", "-Wall", f"-I{headers}", str(source)]
    done = subprocess.run(
        [*command, "-o", str(target), str(library), f"-Wl,-rpath,{library.parent}", "-lpthread"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return target


class _Loop:
    """The part of a loop that a provider uses, on the simulation's clock."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._pending_calls: list[Callable[[float], None]] = []

    @property
    def now(self) -> float:
        return self._simulation.now

    def every(self, interval: float, work: Callable[[float], None]) -> None:
        def again() -> None:
            work(self.now)
            self._simulation.at(self.now + interval, again)

        self._simulation.at(self.now + interval, again)

    def call_soon(self, work: Callable[[float], None]) -> None:
        self._pending_calls.append(work)

    def run(self) -> None:
        while self._pending_calls:
            self._pending_calls.pop(0)(self.now)


class Ground:
    """Hosts, h1 and h3 by default, in a fabric without switches, with a provider each."""

    def __init__(
        self, folder: Path, numbers: tuple[int, ...] = (1, 3), kind: type[Simulation] = Simulation, **config: object
    ) -> None:
        self.simulation = kind(numbers, **config)
        self.folder = folder
        self.loops = {name: _Loop(self.simulation) for name in self.simulation.hosts}
        self.providers = {
            name: Provider(folder / f"{name}.verbs", host, self.loops[name])
            for name, host in self.simulation.hosts.items()
        }
        self._running: list[subprocess.Popen[str]] = []
        self._ran: dict[str, int] = {}  # thread → nanoseconds that it had run when time last passed

    def start(self, host: str, program: Path, *arguments: object, **options: object) -> "subprocess.Popen[str]":
        """Start a program on a host."""
        environment = {**os.environ, "MRCLAB_VERBS": str(self.folder / f"{host}.verbs"), "MRCLAB_EXPLAIN": "1"}
        process = subprocess.Popen(
            [str(program), *map(str, arguments)], env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options,
        )  # fmt: skip
        self._running.append(process)
        return process

    def turn(self) -> None:
        """Serve the programs, then let a little time pass, unless one of them could not go on yet."""
        for name, provider in self.providers.items():
            provider.service()
            self.loops[name].run()
        if self._kept_waiting():
            time.sleep(TURN_S / 4)
        else:
            self.simulation.run(until=self.simulation.now + TURN_S)

    def _kept_waiting(self) -> bool:
        """Return True if a thread of a program wants to run and has not had its share since time last passed."""
        now = {}
        for process in self._running:
            for task in Path(f"/proc/{process.pid}/task").glob("*") if process.poll() is None else ():
                try:
                    state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                    now[task.name] = int((task / "schedstat").read_text().split()[0])
                except (OSError, IndexError):  # it has ended, or this kernel does not count
                    continue
                if state == "R" and now[task.name] - self._ran.get(task.name, 0) < SHARE_NS:
                    return True
        self._ran = now
        return False

    def until(self, done: Callable[[], bool]) -> None:
        """Serve until something is so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not done():
            assert time.monotonic() < deadline, "the programs take too long"
            self.turn()

    def run(self, *processes: "subprocess.Popen[str]") -> list[str]:
        """Serve until the programs have ended well; what each of them said."""
        try:
            self.until(lambda: any(process.poll() for process in processes) or all(p.poll() == 0 for p in processes))
        finally:
            for process in processes:
                process.kill()
            said = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(said)
        return said

    def nothing_left(self) -> bool:
        """Return True if no host holds anything of a program."""
        return all(
            not host.verbs.qps and not len(host.memory) and len(host.verbs._cqs) == 1 and list(host.memory._pds) == [1]
            for host in self.simulation.hosts.values()
        )

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for provider in self.providers.values():
            provider.close()


def pairs(values: Sequence[str]) -> dict[str, str]:
    """Lines `name value` as a dict."""
    return dict(line.split(maxsplit=1) for line in values if " " in line)
