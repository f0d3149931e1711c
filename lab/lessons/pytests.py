"""Lesson 8: the learner's pytest file, run unchanged, and again on broken labs, which it must detect."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import Check, read
from mrclab.topo.linux import paths

_LONGEST = 300.0  # seconds that the tests may take


def grade(path: Path) -> list[Check]:
    """Lesson 8."""
    read(path)
    if importlib.util.find_spec("pytest") is None:
        raise LabError("pytest is missing; install it: pip install pytest")
    passed, others, words = _run(path)
    right = Check(passed > 0 and others == 0, "the tests pass in virtual time",
                  words if others else "there is no test that passes yet")  # fmt: skip
    if not right.ok:
        return [right]
    return [
        right,
        Check(_run(path, "faults")[1] > 0, "a test fails where faults do nothing",
              "assert what the fault does: packets lost on a path, an EV that is ASSUMED_BAD"),
        Check(_run(path, "bytes")[1] > 0, "a test fails where bytes arrive damaged",
              "assert that the transfer is `intact`"),
    ]  # fmt: skip


def _run(path: Path, mutant: str = "") -> tuple[int, int, str]:
    """Return the numbers of tests that passed and that did not (skipped ones included), and pytest's last line."""
    with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as place:
        report = Path(place) / "junit.xml"
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mrclab.lab.lessons.mutants"]
        words += ["-p", "no:hypothesispytest", "-p", "no:anyio"]  # half of the time, where they are installed
        words += [f"--junitxml={report}", f"--rootdir={place}", "-c", "/dev/null", str(path.absolute())]
        words += ["--mrclab-mutant", mutant] if mutant else []
        try:
            done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_LONGEST, cwd=place)
        except subprocess.TimeoutExpired:
            raise LabError(f"the tests of {path} took more than {_LONGEST:g} s") from None
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        try:
            cases = list(ElementTree.parse(report).iter("testcase"))
        except (OSError, ElementTree.ParseError):
            return 0, 1, lines[-1] if lines else "pytest printed nothing"
    bad = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
    skipped = sum(1 for case in cases if case.find("skipped") is not None)
    return (
        len(cases) - bad - skipped,
        bad + skipped,
        next((x for x in lines if x.startswith(("E ", "SKIPPED"))), lines[-1]),
    )
