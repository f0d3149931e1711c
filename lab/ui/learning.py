"""Lessons in a page whose lab is in virtual time: graded by the graders of `mrclab grade`."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.grading import examined
from mrclab.lab.lessons.lessons import LESSONS

HERE = (1, 4, 5, 6, 9)
"""Numbers of the lessons that need no switch, no terminal and no Clustermapper."""


def graded(number: int, text: str, records: Iterable[str]) -> dict[str, Any]:
    """Grade a lesson on the text of the learner's file, or where it needs none on a lab's history, JSON lines.

    {"done", "checks": [{"ok", "wanted", "missing"}]}. LabError where there is nothing to grade.
    """
    if number not in HERE:
        raise LabError(f"lesson {number} cannot be done in this page; in a terminal: mrclab grade {number}")
    with tempfile.TemporaryDirectory(prefix="mrclab-learner-") as folder:
        name = LESSONS[number].file
        subject = Path(folder) / (name or "lab.jsonl")
        subject.write_text(text if name else "\n".join(records), encoding="utf-8")
        _, checks = examined(number, subject, Path(folder))
    told = [{"ok": check.ok, "wanted": check.wanted, "missing": check.missing} for check in checks]
    return {"done": all(check.ok for check in checks), "checks": told}
