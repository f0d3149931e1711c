"""Errors for a person at the command line; every text is one sentence with the remedy."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mrclab.topo.errors import MachineTooSlow, ProcessStopped, TopoError


class LabError(Exception):
    """Base of the errors that the command line prints and turns into its exit status."""

    status = 2  # exit status of the command


class Refused(LabError):  # noqa: N818 - the sentence is the error
    """The machine or the user cannot run this: no root, no Mininet, another lab is running."""


class ScenarioError(LabError):
    """A scenario that cannot run. `mistakes` holds one line for each thing that is wrong with it."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class NoRoom(LabError):  # noqa: N818 - the sentence is the error
    """The place where results go is full."""


class Interrupted(LabError):  # noqa: N818 - the sentence is the error
    """Ctrl-C or another signal ended the lab."""

    status = 130  # as a shell says it: 128 + SIGINT


class RunError(LabError):
    """The lab came up, but an operation failed: a process died, a transfer broke off, a timeout."""

    status = 1


class Unreachable(RunError):  # noqa: N818 - the sentence is the error
    """A node has no process that answers: it ended, or a fault killed it."""


class NoResult(RunError):  # noqa: N818 - the sentence is the error
    """A cause outside the network prevented something from happening in time."""

    status = 3


class TooSlow(NoResult):
    """The machine was too slow."""


class Stopped(NoResult):
    """A signal had stopped a process of the lab."""


def as_run_error(error: TopoError, what: str = "") -> RunError:
    """Return a fabric's error as the lab's: `what` failed (`x could not be injected`), and why."""
    known = {MachineTooSlow: TooSlow, ProcessStopped: Stopped}
    kind = next((made for cause, made in known.items() if isinstance(error, cause)), RunError)
    return kind(f"{what}: {error}" if what else str(error))


def error_of(row: Mapping[str, Any]) -> str:
    """Return why a run was aborted, of its row in results: earlier versions wrote `trouble`."""
    return str(row.get("error") or row.get("trouble") or "")


_UNMAPPED = ("failed to map segment", "cannot allocate memory")  # as the dynamic linker says it, in an ImportError
_NO_THREAD = "can't start new thread"  # as CPython says it, in a RuntimeError without a number
_EXHAUSTED = {
    errno.EMFILE: "open files; allow more, for example with `ulimit -n 65536`",
    errno.ENFILE: "open files; allow more, for example with `sysctl fs.file-max`",
    errno.EAGAIN: "processes and threads; allow more (`ulimit -u`, pids.max of the control group), or close what runs",
    errno.ENOMEM: "memory; close what else runs, or give it more",
}


_LOGGED = {  # of gRPC, CPython and the C++ library, in the logs of processes
    "pthread_create failed": errno.EAGAIN,
    _NO_THREAD: errno.EAGAIN,
    "what():  Resource temporarily unavailable": errno.EAGAIN,
    "Too many open files": errno.EMFILE,
    "std::bad_alloc": errno.ENOMEM,
    "MemoryError": errno.ENOMEM,
    "Cannot allocate memory": errno.ENOMEM,
}
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
_END_BYTES = 4096  # of a log, which tell how its process ended


def exhausted(error: BaseException) -> str:
    """Return the resource that this machine has run out of, if an error means that; else empty."""
    number = error.errno if isinstance(error, OSError) else None
    unmapped = isinstance(error, ImportError) and any(words in str(error).lower() for words in _UNMAPPED)
    if unmapped or isinstance(error, MemoryError):
        number = errno.ENOMEM
    elif isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        number = errno.EAGAIN
    return f"this machine has run out of {_EXHAUSTED[number]}" if number in _EXHAUSTED else ""


def by_machine(error: BaseException) -> bool:
    """Return True if the machine, not the network, ended a run: a full disk, too many open files, too little memory."""
    return bool(exhausted(error)) or (isinstance(error, OSError) and error.errno in _UNWRITABLE)


def exhausted_by_log(log: Path) -> str:
    """Return the resource that a process ran out of, by the end of its log; empty where that names none."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _END_BYTES, 0))
            end = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    number = next((number for words, number in _LOGGED.items() if words in end), None)
    return "" if number is None else f"this machine has run out of {_EXHAUSTED[number]} (see log/{log.name})"


def plain(error: BaseException) -> str:
    """Return the text of an error; of one of the operating system, the file, where known, and what is wrong with it."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def not_a_result(directory: Path, error: Exception) -> str:
    """Return why a directory is not the result of a run, and the remedy."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        there = directory.is_dir()
        why = f"it has no {Path(error.filename).name}" if there else "there is no such directory"
        return f"{directory} is not the result directory of a finished run: {why}; name one that `mrclab run` printed"
    return f"{directory} is not the result directory of a finished run: {plain(error)}; run its scenario again"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file that cannot be written: an OSError of a full disk lacks it."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
