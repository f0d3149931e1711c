"""A lesson's grade, or that of all, as lines to read."""

from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import Check, Lesson
from mrclab.lab.lessons.lessons import LESSONS
from mrclab.lab.lessons.parts import SEEDED


def graded(number: int, file: Path | None, run_dir: Path, seed: int | None = None) -> tuple[list[str], bool]:
    """Grade a lesson as `examined` does: lines, and whether it is done."""
    lesson, checks = examined(number, file, run_dir, seed)
    lines = [f"Lesson {number}: {lesson.title}"]
    lines += [f"✓ {check.wanted}" if check.ok else f"✗ {check.wanted}: {check.missing}" for check in checks]
    missing = sum(not check.ok for check in checks)
    lines.append(f"{missing} of {len(checks)} are missing" if missing else "done")
    return lines, not missing


def progress(folder: Path, seed: int | None = None) -> tuple[list[str], bool]:
    """Grade what is handed in below `folder`, by its name: a line for each lesson, and whether all are done.

    Lessons without a file ask a lab or a result, and are named. LabError where there is no such folder, or two files
    of one name.
    """
    if not folder.is_dir():
        raise LabError(f"there is no folder {folder}; name the one with the files that you work on")
    lines, done = [], 0
    for number, lesson in LESSONS.items():
        told, ok = _standing(folder, number, lesson, seed)
        done += ok
        lines.append(f"{'✓' if ok else '✗'} {number} {lesson.title}{': ' if told else ''}{told}")
    lines.append(f"{done} of {len(LESSONS)} lessons are done")
    return lines, done == len(LESSONS)


def _standing(folder: Path, number: int, lesson: Lesson, seed: int | None) -> tuple[str, bool]:
    """Return what a lesson still lacks, and whether it is done."""
    if not lesson.file:
        return f"asks the running lab or a result: mrclab grade {number}", False
    found = sorted(folder.rglob(lesson.file))
    if len(found) > 1:
        raise LabError(f"{found[0]} and {found[1]} are both of lesson {number}; name a folder with one of them")
    if not found:
        return f"no {lesson.file}", False
    try:
        checks = list(lesson.grade(found[0], seed if number in SEEDED else None))
    except LabError as error:
        return str(error), False
    missing = sum(not check.ok for check in checks)
    return (f"{missing} of {len(checks)} are missing" if missing else ""), not missing


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
