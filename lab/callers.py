"""Python programs as callers: their values as a scenario file holds them, and errors that name their arguments."""

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.scenario.seeds import MAX_SEED

_AS_ARGUMENTS = (
    (r"`?--(world|target) (\w+)`?", r'\1="\2"'),
    (r"`?--set ([\w.]+)=(\S+)`?", r'with_values({"\1": "\2"})'),
    (r"; --force starts it even so", ""),
    (r"name another directory with --output", "choose another directory"),
    (r"--y ([^:]*)", r'y="\1"'),
    (r"run it with --flows, or with flows: true in its file", "run it with flows=True"),
    (r"see --(results)", r"choose another for \1="),
    (r"--(results|seeds)\b", r"\1="),
)


@contextmanager
def arguments_named() -> Iterator[None]:
    """In errors of the block, name the arguments of a Python call rather than the command line's options."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError([_as_arguments(line) for line in error.mistakes]) from None
    except LabError as error:
        error.args = (_as_arguments(str(error)),)
        raise


def _as_arguments(text: str) -> str:
    for option, argument in _AS_ARGUMENTS:
        text = re.sub(option, argument, text)
    return text


def plain(value: Any, place: str) -> Any:
    """Return a value as a file would hold it: numbers of numpy as Python's. ScenarioError names what no file holds."""
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return plain(value.tolist(), place)
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: plain(inner, f"{place}.{key}") for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(inner, f"{place}[{number}]") for number, inner in enumerate(value, 1)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ScenarioError([f"{place}: {value!r:.60} cannot be in a scenario; give text, a number, a list or a dict"])


def path_of(value: str | Path, what: str) -> Path:
    """Return a path given as text or Path; LabError for anything else."""
    if not isinstance(value, (str, os.PathLike)):
        raise LabError(f"{what} is the path of a file or folder as text, not {value!r:.60}")
    return Path(value)


def whole(value: Any, what: str, least: int = 0) -> int:
    """Return a whole number of Python's or numpy's, of at least `least`; LabError for anything else."""
    found = plain(value, what)
    if isinstance(found, bool) or not isinstance(found, int) or found < least:
        raise LabError(f"{what} is a whole number of at least {least}, not {value!r:.60}")
    return found


def seed_of(value: Any, what: str) -> int:
    """Return a seed; ScenarioError for anything else."""
    try:
        found = whole(value, what)
    except LabError as error:
        raise ScenarioError([str(error)]) from None
    if found > MAX_SEED:
        raise ScenarioError([f"{what} is at most {MAX_SEED}, not {found}"])
    return found


def text_of(value: Any, what: str) -> str:
    """Return a text; LabError for anything else."""
    if not isinstance(value, str):
        raise LabError(f"{what} is a text, not {value!r:.60}")
    return value


def need_main_thread(what: str) -> None:
    """LabError off the main thread, where nothing can handle Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        raise LabError(
            f"{what} works in the main thread only, as it handles Ctrl-C; for several at once use mrclab.campaign,"
            " or a process for each"
        )
