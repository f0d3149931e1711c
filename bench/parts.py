"""`python -m mrclab.bench.parts SCENARIO`: CPU time of the parts of a run in virtual time.

Each part counts alone: what it calls of another counts there. Campaigns pay all but the last two, of which the first is
writing a result directory and reading it again.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrclab.hosts.agent.sampling import Sampler
from mrclab.lab.report import results
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.sim.world import SimWorld

SIMULATION, SAMPLES, HISTORY, READING, JUDGING, FILES, REPORT = (
    "simulation", "samples", "history", "reading it", "judging", "files", "report",
)  # fmt: skip


class PartTimes:
    """CPU seconds by part, exclusive of the parts inside."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stack: list[str] = []
        self._since = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time of the block for a part."""
        self._count()
        self._stack.append(name)
        try:
            yield
        finally:
            self._count()
            self._stack.pop()

    def _count(self) -> None:
        now = time.process_time()
        if self._stack:
            self.seconds[self._stack[-1]] = self.seconds.get(self._stack[-1], 0.0) + now - self._since
        self._since = now

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Count all calls of a function for a part."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            with self.part(part):
                return function(*arguments, **named)

        setattr(owner, name, counted)


def watch() -> PartTimes:
    """Return a stopwatch of all runs of this process from now on."""
    made = PartTimes()
    made.wrap(runner.Run, "go", SIMULATION)
    made.wrap(Sampler, "take", SAMPLES)
    made.wrap(SimWorld, "_write", HISTORY)
    made.wrap(results, "measured", READING)
    made.wrap(results.CollectedRun, "judge", JUDGING)
    made.wrap(results, "collect", FILES)
    made.wrap(results, "load", FILES)
    made.wrap(results, "write_numbers", REPORT)
    made.wrap(results, "write_page", REPORT)
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Measure the median of some rounds, and print a line for each part."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.bench.parts", description=__doc__)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--variant", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="as in mrclab run")
    options = parser.parse_args(words)
    loaded = scenario.in_world(scenario.load(options.scenario), "sim")
    loaded = loaded.pick(options.variant) if options.variant else loaded.runs[0]
    loaded = scenario.with_values(loaded, scenario.parse_settings(options.set))
    stopwatch, rounds = watch(), []
    for _ in range(options.rounds):
        stopwatch.seconds = {}
        with tempfile.TemporaryDirectory() as place:
            runner.measure(loaded, Path(place), *_quiet)
            without_files = dict(stopwatch.seconds)
            runner.run_scenario(loaded, Path(place), *_quiet)
        rounds.append({**stopwatch.seconds, **without_files})
    first = sorted(row[SIMULATION] for row in rounds)[len(rounds) // 2]
    for part in (SIMULATION, SAMPLES, HISTORY, READING, JUDGING, FILES, REPORT):
        took = sorted(row.get(part, 0.0) for row in rounds)
        middle = took[len(took) // 2]
        sys.stdout.write(
            f"{part:12} {middle:7.3f} s ({took[0]:.3f} to {took[-1]:.3f}), {middle / first:.2f} of the simulation\n"
        )
    return 0


_quiet: tuple[Callable[..., None], Callable[..., None]] = (lambda *_: None, lambda _: None)


if __name__ == "__main__":
    sys.exit(main())
