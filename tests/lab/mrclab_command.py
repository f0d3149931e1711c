"""The command `mrclab` as a process of its own, on a run directory of its own, and what a run of it must not leave."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from topo_helpers import remains, run_dir

from mrclab.topo.linux import state
from mrclab.topo.linux.processes import of_labs

SMALL = """\
name: small
max_wait: 1s
fabric: {planes: 2, t0s: 1, t1s: 1, hosts_per_t0: 2, path_mtu: 1024, link: {rate_pps: 500, delay: 5ms}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: SIZE}
"""


def small_scenario(directory: Path, size: str, rest: str = "") -> Path:
    """A scenario file on a fabric of four switches, in which h1 and h2 share a T0 group."""
    path = directory / "small.yaml"
    path.write_text(SMALL.replace("SIZE", size) + rest)
    return path


class Command:
    """Starts `mrclab` with a run directory of its own."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        code = "from mrclab.lab.command.entry import main; main()"
        self._argv = [sys.executable, "-c", code, "--run-dir", str(run_dir)]

    def run(self, *words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        argv = [*self._argv, *map(str, words)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, **options)

    def run_unprivileged(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run to the end as nobody. By setpriv: for another user Python forks, and grpc's handlers may write then."""
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *self._argv, *map(str, words)]
        environment = {**os.environ, "HOME": "/nonexistent"}
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=environment)

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start, with a pipe to its standard input and output."""
        argv = [*self._argv, *map(str, words)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(argv, text=True, start_new_session=True, **pipes)

    def processes(self) -> set[int]:
        """Pids of the running lab's processes."""
        return of_labs().get(self.run_dir.parent.resolve(), set())

    def remains(self) -> list[object]:
        """Return the remains of runs on the machine."""
        return remains(self.run_dir)

    def wait_until(self, happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        """Wait for something that a running command does."""
        deadline = time.monotonic() + 60
        while not happened():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "it took more than a minute"
            time.sleep(0.01)

    def interrupt(
        self, process: subprocess.Popen[str], happened: Callable[[], bool], number: int = signal.SIGINT
    ) -> str:
        """Signal the command once something has happened: it ends as interrupted, leaves nothing; what it said."""
        try:
            self.wait_until(happened, process)
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130
        assert said.strip().endswith("mrclab: interrupted; the lab is down")
        left = self.remains()
        assert left == [], left
        return said

    def recorded(self, kind: str) -> bool:
        """Return True if the running lab's history holds a record of this kind."""
        path = self.run_dir / "history" / "lab.jsonl"
        return path.exists() and f'"kind": "{kind}"' in path.read_text()

    def claimed(self) -> bool:
        """Return True if the running lab has its lock."""
        return (self.run_dir.parent / "lock").exists()

    def agent(self, host: str) -> int:
        """Pid of a host's agent in the running lab, as it writes it into its history a moment after it answers."""
        path, deadline = self.run_dir / "history" / f"{host}.jsonl", time.monotonic() + 60
        while True:
            whole, _, _ = path.read_text().rpartition("\n")
            records = [json.loads(line) for line in whole.splitlines()]
            if found := [int(record["pid"]) for record in records if record["kind"] == "agent.start"]:
                return found[0]
            assert time.monotonic() < deadline, f"{host} has recorded no start in a minute"
            time.sleep(0.02)

    def pids(self, process: str) -> list[int]:
        """Pids of the running lab's controller, or of a switch, by what is on their command lines."""
        mark = "mrclab.controller" if process == "controller" else f"1@{process}-1"
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").split():
                    found.append(pid)
        return found

    def logs(self, process: str) -> bool:
        """Return True if a process of the lab was started."""
        return (self.run_dir / "log" / f"{process}.log").exists()


@pytest.fixture
def mrclab(request: pytest.FixtureRequest) -> Iterator[Command]:
    """The command, with a run directory that is cleaned up whatever the test did."""
    command = Command(run_dir(f"-{abs(hash(request.node.name)) % 10000}"))
    yield command
    state.clean(command.run_dir.parent)
