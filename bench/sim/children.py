"""CPU time and memory of a child process: the same measure for both simulators."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mrclab.lab.errors import RunError

_LAUNCH = Path(__file__).with_name("launch.py")
_KIB = 1024  # unit of ru_maxrss on Linux


@dataclass(frozen=True)
class SimCost:
    """Cost of one run: wall-clock and CPU seconds of the whole process, its largest memory in bytes.

    `packets`: data packets sent, `retransmitted` of them retransmissions; `completions`: virtual seconds, sorted.
    """

    wall: float
    cpu: float
    memory: int
    simulator: str = ""
    packets: int = 0
    retransmitted: int = 0
    completions: tuple[float, ...] = ()

    def of(self, simulator: str, packets: int, retransmitted: int, completions: Sequence[float]) -> SimCost:
        """Return a copy with the simulator's output."""
        counts = {"packets": packets, "retransmitted": retransmitted}
        return replace(self, simulator=simulator, completions=tuple(completions), **counts)

    def completed(self, share: float) -> float:
        """Return the completion time that this share of all transfers did not exceed."""
        return self.completions[min(len(self.completions) - 1, int(share * len(self.completions)))]


def measure(command: Sequence[str], folder: Path | None = None) -> tuple[str, SimCost]:
    """Run a program to its end; return its output and cost. RunError with its last line if it failed.

    `folder`: where it runs; else here.
    """
    import signal  # noqa: PLC0415 - a child imports this module, too, and starts none
    import subprocess  # noqa: PLC0415

    reader, writer = os.pipe()
    launch = [sys.executable, "-IS", str(_LAUNCH), str(writer), *command]
    began = time.perf_counter()
    with open(reader, "rb") as usage:  # noqa: PTH123 - a descriptor
        try:
            process = subprocess.Popen(
                launch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, pass_fds=[writer],
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(writer)
        with process:
            assert process.stdout is not None
            try:
                output = process.stdout.read().decode(errors="replace")
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        found = usage.read()
    wall = time.perf_counter() - began
    status, cpu, memory = json.loads(found) if found else (process.returncode, 0.0, 0)
    if status:
        last = (output.strip().splitlines() or ["nothing"])[-1]
        raise RunError(f"{command[0]} ended with status {status}; its last output: {last}")
    return output, SimCost(wall, cpu, memory * _KIB)
