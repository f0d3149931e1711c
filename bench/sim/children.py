"""CPU time and memory of a child process: the same measure for both simulators."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mrclab.lab.errors import RunError

_KIB = 1024  # unit of ru_maxrss on Linux


@dataclass(frozen=True)
class SimCost:
    """Cost of one run: wall-clock and CPU seconds of the whole process, its largest memory in bytes.

    `packets`: data packets sent, `again` of them retransmissions; `completions`: virtual seconds, sorted.
    """

    wall: float
    cpu: float
    memory: int
    simulator: str = ""
    packets: int = 0
    again: int = 0
    completions: tuple[float, ...] = ()

    def of(self, simulator: str, packets: int, again: int, completions: Sequence[float]) -> SimCost:
        """Return a copy with the simulator's output."""
        return replace(self, simulator=simulator, packets=packets, again=again, completions=tuple(completions))

    def completed(self, share: float) -> float:
        """Return the completion time that this share of all transfers did not exceed."""
        return self.completions[min(len(self.completions) - 1, int(share * len(self.completions)))]


def measure(command: Sequence[str], folder: Path | None = None) -> tuple[str, SimCost]:
    """Run a program to its end; return its output and cost. RunError with its last line if it failed.

    `folder`: where it runs; else here.
    """
    import subprocess  # noqa: PLC0415 - a child imports this module, too, and starts none

    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder) as process:
        assert process.stdout is not None
        try:
            output = process.stdout.read().decode(errors="replace")
        except BaseException:
            process.kill()
            raise
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        last = (output.strip().splitlines() or ["nothing"])[-1]
        raise RunError(f"{command[0]} ended with status {process.returncode}; its last output: {last}")
    return output, SimCost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _KIB)
