"""Lessons 4, 6 and 9: a scenario with variants that expectations distinguish, run in virtual time."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import Check
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded


@dataclass(frozen=True)
class ExpectedRun:
    """A variant that a lesson requires: its fields, and the limit of the expectation that distinguishes it."""

    what: str
    holds: Callable[[Loaded], bool]
    kind: str
    limit: str  # `at_least` or `at_most`
    bound: float  # the limit is at least, or at most, this


def spraying(path: Path) -> list[Check]:
    """Lesson 4."""
    return _grade(path, {
        "mrc": ExpectedRun("MRC with one QP", lambda run: _transport(run) == ("mrc", 1), "spread", "at_least", 0.9),
        "roce-1": ExpectedRun("RoCEv2 with one QP", lambda run: _transport(run) == ("roce", 1),
                              "spread", "at_most", 0.75),
    })  # fmt: skip


def full_queue(path: Path) -> list[Check]:
    """Lesson 6."""
    return _grade(path, {
        "trim": ExpectedRun("trimming on", lambda run: run.fabric.spec.trimming, "trims", "at_least", 1),
        "no-trim": ExpectedRun("trimming off", lambda run: not run.fabric.spec.trimming, "drops", "at_least", 1),
        "last-hop-ecn": ExpectedRun("last-hop ECN", lambda run: run.fabric.spec.last_hop_ecn, "marks", "at_least", 100),
    })  # fmt: skip


def path_signal(path: Path) -> list[Check]:
    """Lesson 9."""
    return _grade(path, {
        "ecn": ExpectedRun("the free flow may take both paths", lambda run: not _pinned(run, "free"),
                           "path_share", "at_least", 0.9),
        "no-choice": ExpectedRun("the free flow may take the full path alone",
                                 lambda run: _pinned(run, "free") == [(1, 1)], "path_share", "at_most", 0.1),
    })  # fmt: skip


def _pinned(run: Loaded, name: str) -> list[tuple[int, int]]:
    """The paths that a workload is left."""
    return [(path.plane, path.uplink) for entry in run.scenario.traffic if entry.name == name for path in entry.paths]


def _grade(path: Path, expected: Mapping[str, ExpectedRun]) -> list[Check]:
    try:
        loaded = scenario.in_world(scenario.load(path), "sim")
    except LabError as error:
        return [Check(False, "the scenario can be read", str(error))]
    runs = {run.variant: run for run in loaded.runs}
    return [check for name, each in expected.items() for check in _checks(name, each, runs.get(name))]


def _checks(name: str, expected: ExpectedRun, run: Loaded | None) -> list[Check]:
    there = Check(run is not None and expected.holds(run), f"variant {name}: {expected.what}",
                  f"`variants` has no {name} yet" if run is None else "its `set` makes something else")  # fmt: skip
    if run is None or not there.ok:
        return [there]
    sign = "≥" if expected.limit == "at_least" else "≤"
    limit = f"{expected.kind} {sign} {expected.bound:g}"
    limited = Check(_judges(run, expected), f"variant {name} expects {limit}, or stricter",
                 f"its `expect` has no `kind: {expected.kind}` with such a limit")  # fmt: skip
    if not limited.ok:
        return [there, limited]
    with tempfile.TemporaryDirectory(prefix="mrclab-lesson-") as results, _progress() as bar:
        outcome = runner.run_scenario(run, Path(results), bar, report=False)
    missed = "; ".join(f"expected {v.expected}, observed {v.observed}" for v in outcome.verdicts if not v.ok)
    return [there, limited, Check(outcome.ok, f"variant {name} passes", missed)]


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the terminal; none where there is no terminal, as in a browser."""
    try:
        from mrclab.lab import console  # noqa: PLC0415
        from mrclab.lab.command.display import progress  # noqa: PLC0415
    except ImportError:
        yield lambda *_: None
        return
    with progress.shown(console.console(stderr=True)) as bar:
        yield bar


def _transport(run: Loaded) -> tuple[str, int]:
    return run.scenario.transport.kind, run.scenario.transport.qps


def _judges(run: Loaded, expected: ExpectedRun) -> bool:
    """Return True if an expectation of the kind has a limit at least as strict as the expected one."""
    for each in run.scenario.expect:
        value = getattr(each, expected.limit, None)
        if each.kind_name == expected.kind and isinstance(value, (int, float)):
            return value >= expected.bound if expected.limit == "at_least" else value <= expected.bound
    return False
