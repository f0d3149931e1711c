"""Lessons in a page whose lab is in virtual time: graded by the graders of `mrclab grade`."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import LESSONS, Check
from mrclab.lab.lessons.grading import examined
from mrclab.lab.lessons.p4 import routes
from mrclab.lab.lessons.parts import SwitchPart
from mrclab.lab.p4 import shell

HERE = (1, 2, 3, 4, 5, 6, 9)
"""Numbers of lessons that need no terminal and no Clustermapper; 2 and 3 have a page with P4 switches."""

_PROGRAMMED = 3  # a controller is handed in


def graded(number: int, text: str, records: Iterable[str]) -> dict[str, Any]:
    """Grade a lesson on the text of the learner's file, or where it needs none on a lab's history, JSON lines.

    {"done", "checks": [{"ok", "expected", "missing"}]}. LabError where there is nothing to grade.
    """
    if number not in HERE:
        raise LabError(f"lesson {number} cannot be done in this page; in a terminal: mrclab grade {number}")
    if number == _PROGRAMMED:
        return _answer(programmed(text))
    with tempfile.TemporaryDirectory(prefix="mrclab-learner-") as folder:
        name = LESSONS[number].file
        subject = Path(folder) / (name or "lab.jsonl")
        subject.write_text(text if name else "\n".join(records), encoding="utf-8")
        _, checks = examined(number, subject, Path(folder))
    return _answer(checks)


def programmed(text: str) -> list[Check]:
    """Grade lesson 3 on a controller that runs in this process."""
    device = shell.ShellDevice()
    _, error = shell.run(text, device)
    if error:
        return [Check(False, "the controller runs to its end", error)]
    return routes.checks(SwitchPart(), None if device.programmed is None else device.programmed.answer)


def _answer(checks: Sequence[Check]) -> dict[str, Any]:
    return {"done": all(check.ok for check in checks), "checks": [*map(vars, checks)]}
