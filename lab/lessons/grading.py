"""The grade of a lesson, or of all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import LESSONS, Check, Lesson
from mrclab.lab.lessons.parts import SEEDED


def graded(number: int, file: Path | None, run_dir: Path, seed: int | None = None) -> tuple[list[str], bool]:
    """Grade a lesson as `examined` does; return lines of text, and True if the lesson is done."""
    lesson, checks = examined(number, file, run_dir, seed)
    lines = [f"Lesson {number}: {lesson.title}"]
    lines += [f"✓ {check.expected}" if check.ok else f"✗ {check.expected}: {check.missing}" for check in checks]
    missing = _count(checks)
    return [*lines, missing or "done"], not missing


def _count(checks: Sequence[Check]) -> str:
    """Return how many checks are not met, `2 of 5 missing`; empty where all are."""
    missing = sum(not check.ok for check in checks)
    return f"{missing} of {len(checks)} missing" if missing else ""


@dataclass(frozen=True)
class LessonState:
    """Progress of one lesson; `missing` is the reason if it is not `ok`."""

    lesson: int
    title: str
    ok: bool
    missing: str = ""


def progress(folder: Path, seed: int | None = None) -> list[LessonState]:
    """Grade the files below `folder` for every lesson, matched by name.

    Lessons without a file need a lab or a result, and count as not done. LabError where there is no such folder, or two
    files are of one lesson.
    """
    if not folder.is_dir():
        raise LabError(f"there is no folder {folder}; name the one with the files that you work on")
    missing = {number: _missing(folder, lesson, seed) for number, lesson in LESSONS.items()}
    return [LessonState(number, LESSONS[number].title, not what, what) for number, what in missing.items()]


def _missing(folder: Path, lesson: Lesson, seed: int | None) -> str:
    """Return why a lesson is not done; empty where it is."""
    if not lesson.file:
        return f"asks the running lab or a result: mrclab grade {lesson.number}"
    found = sorted(folder.rglob(lesson.file))
    if len(found) > 1:
        raise LabError(f"{found[0]} and {found[1]} are both of lesson {lesson.number}; name a folder with one of them")
    if not found:
        return f"no {lesson.file}"
    try:
        return _count(lesson.grade(found[0], seed if lesson.number in SEEDED else None))
    except LabError as error:
        return str(error)


def examined(number: int, file: Path | None, run_dir: Path, seed: int | None = None) -> tuple[Lesson, list[Check]]:
    """Check a lesson's file, or the lab in `run_dir` where it needs no file; return the lesson and its checks.

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
