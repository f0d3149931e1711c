"""All lessons by number, and the common parts of their graders; docs/lessons has their texts and skeletons."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.parts import SEEDED


@dataclass(frozen=True)
class Check:
    """One requirement of a lesson; `missing` is the reason if it is not `ok`."""

    ok: bool
    expected: str
    missing: str = ""


@dataclass(frozen=True)
class Lesson:
    """`grader` is `MODULE.FUNCTION` of this package; it takes the learner's file, or where `file` is empty the history
    of a lab: a directory or one file. `minutes`: its duration; `needs`: numbers of the lessons to do before it.
    """

    number: int
    title: str
    grader: str
    file: str = ""
    minutes: int = 30
    needs: tuple[int, ...] = ()

    def grade(self, subject: Path, seed: int | None = None) -> list[Check]:
        """All checks, on the part of the learner with this seed. LabError where nothing can be checked."""
        if seed is not None and self.number not in SEEDED:
            numbers = ", ".join(map(str, SEEDED))
            raise LabError(f"lesson {self.number} is the same for all: leave out --seed, which lessons {numbers} take")
        module, _, function = self.grader.rpartition(".")
        try:
            loaded = importlib.import_module(f"mrclab.lab.lessons.{module}")
        except ImportError as error:
            raise LabError(f"lesson {self.number} needs the packages for real frames, on Linux ({error})") from None
        found: Callable[..., list[Check]] = getattr(loaded, function)
        return found(subject, seed) if self.number in SEEDED else found(subject)


LESSONS = {
    lesson.number: lesson
    for lesson in (
        Lesson(1, "The fabric and its uSIDs", "fabric.grade", "answers.yaml", 20, ()),
        Lesson(2, "The uN shift in P4", "p4.shift.grade", "shift.p4", 40, (1,)),
        Lesson(3, "A P4Runtime controller of your own", "p4.p4runtime.grade", "controller.py", 40, (1, 2)),
        Lesson(4, "Spraying against ECMP collisions", "variants.spraying", "spray.yaml", 30, (1,)),
        Lesson(5, "A lost link, RTT by RTT", "happened.lost_link", "", 30, (1,)),
        Lesson(6, "A full queue: trimming and incast", "variants.full_queue", "incast.yaml", 30, (1,)),
        Lesson(7, "Gray failure and Clustermapper", "happened.gray_failure", "", 30, (1, 5)),
        Lesson(8, "A scenario of your own as a pytest", "pytests.grade", "test_my_lab.py", 40, (5,)),
        Lesson(9, "ECN as a path signal", "variants.path_signal", "ecn.yaml", 30, (1, 4)),
    )
}


def read(path: Path) -> str:
    """The learner's file; LabError where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}; name the file that you work on") from None
    except UnicodeDecodeError as error:
        raise LabError(
            f"cannot read {path}: byte {error.start + 1} is not UTF-8; name the file that you work on"
        ) from None


def mapping(path: Path) -> dict[str, object]:
    """The learner's YAML file; LabError where it is no mapping."""
    try:
        found = YAML(typ="safe", pure=True).load(read(path))
    except YAMLError as error:
        raise LabError(f"{path} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise LabError(f"{path} must hold `name: value` lines; begin again from the lesson's skeleton")
    return {str(name): value for name, value in found.items()}
