"""A lesson's grade as lines to read."""

from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import Check, Lesson
from mrclab.lab.lessons.lessons import LESSONS


def graded(number: int, file: Path | None, run_dir: Path, seed: int | None = None) -> tuple[list[str], bool]:
    """Grade a lesson as `examined` does: lines, and whether it is done."""
    lesson, checks = examined(number, file, run_dir, seed)
    lines = [f"Lesson {number}: {lesson.title}"]
    lines += [f"✓ {check.wanted}" if check.ok else f"✗ {check.wanted}: {check.missing}" for check in checks]
    missing = sum(not check.ok for check in checks)
    lines.append(f"{missing} of {len(checks)} are missing" if missing else "done")
    return lines, not missing


def examined(number: int, file: Path | None, run_dir: Path, seed: int | None = None) -> tuple[Lesson, list[Check]]:
    """Look at a lesson on a file, or where it needs none on the lab in `run_dir`: the lesson, and what was checked.

    LabError where there is no such lesson, or nothing to grade.
    """
    lesson = LESSONS.get(number)
    if lesson is None:
        raise LabError(f"there is no lesson {number}; they go from {min(LESSONS)} to {max(LESSONS)}")
    if file is None and lesson.file:
        raise LabError(f"lesson {number} looks at your file: mrclab grade {number} {lesson.file}")
    if file is None and not (run_dir / "fabric.yaml").exists():
        raise LabError(f"lesson {number} looks at the running lab, and none is up; see docs/lessons")
    if file is not None and not file.exists():
        raise LabError(f"there is no {file}; name the file that you work on")
    return lesson, list(lesson.grade(run_dir / "history" if file is None else file, seed))
