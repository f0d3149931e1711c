"""`make mutants`: each bug of the catalogue in turn, in a process of its own; which test notices, and how soon.

Nothing is written: the process reads one source with the bug in it. Exit status 1 where a bug was not noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

_OF_OTHERS = ("pydantic", "rich.console", "typer", "yaml")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from catalogue import MUTANTS, Mutant  # noqa: E402


class Bug(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Loads one module from its source with the bug in it."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = "mrclab." + mutant.file.removesuffix(".py").replace("/", ".")
        self._path = str(ROOT / mutant.file)
        self._source = mutated(mutant)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._source.encode()


def mutated(mutant: Mutant) -> str:
    """The source with the bug; ValueError where it does not fit any more."""
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        raise ValueError(f'"{mutant.name}": {mutant.file} has its old text {source.count(mutant.old)} times, not once')
    return source.replace(mutant.old, mutant.new)


def node(name: str) -> str:
    """Return the node ID of a file or a test of the catalogue; empty where the file is missing."""
    file, _, test = name.partition("::")
    path = ROOT / f"tests/unit/test_{file}.py"
    if not path.exists():
        return ""
    return f"{path}::test_{test}" if test else str(path)


class _First:
    """The first test that fails."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._place.exists():
            self._place.write_text(report.nodeid.rpartition("/")[2], encoding="utf-8")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self._place.exists():
            self._place.write_text(f"{report.nodeid.rpartition('/')[2]} (import)", encoding="utf-8")


def notice(mutant: Mutant, limit: int) -> tuple[str, float]:
    """The test that notices a bug, empty where none does, and the CPU seconds until then."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "first"
        child = os.fork()
        if not child:
            os._exit(_run(mutant, place, limit))
        _, status, usage = os.wait4(child, 0)
        if status and not place.exists():
            raise SystemExit(f'the tests of "{mutant.name}" could not run; try them: pytest tests/unit')
        return place.read_text(encoding="utf-8") if place.exists() else "", usage.ru_utime + usage.ru_stime


def _run(mutant: Mutant, place: Path, limit: int) -> int:
    # assertions are left plain: their rewriting would read the sources, past the bug
    os.environ["MRCLAB_COMPILED"] = "0"
    sys.meta_path.insert(0, Bug(mutant))
    files = list(filter(None, map(node, mutant.tests)))
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        os.chdir(ROOT)
        words = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--assert=plain", f"--timeout={limit}"]
        return int(pytest.main([*words, *files], plugins=[_First(place)]))


def main() -> int:
    """Run; a line each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose name has this in it")
    parser.add_argument("--every", default="1/1", metavar="N/M", help="the N-th of M parts, for several at once")
    parser.add_argument("--limit", type=int, default=120, help="seconds that a test may take")
    given = parser.parse_args()
    for name in _OF_OTHERS:  # once, and not in each child
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    part, parts = map(int, given.every.split("/"))
    chosen = [mutant for mutant in MUTANTS if given.only in mutant.name][part - 1 :: parts]
    left = 0
    print("| bug | where | noticed by | CPU s |\n|---|---|---|---|")
    for mutant in chosen:
        test, seconds = notice(mutant, given.limit)
        left += not test
        print(f"| {mutant.name} | {mutant.file} | {test or '**nothing**'} | {seconds:.1f} |", flush=True)
    print(f"\n{len(chosen) - left} of {len(chosen)} noticed; {time.process_time():.0f} s of CPU besides")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
