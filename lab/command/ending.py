"""Ends of a command: known errors become one sentence on standard error and an exit status."""

import contextlib
import errno
import gc
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from mrclab.lab.errors import Interrupted, LabError, ScenarioError, exhausted, plain
from mrclab.lab.run.interrupts import guarded, ignore_signals
from mrclab.rpc.errors import RpcError
from mrclab.topo.errors import TopoError

_REMEDIES = (
    ({errno.ENOSPC, errno.EDQUOT}, "free space there, and do it again"),
    ({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}, "name another file or folder"),
    ({errno.EFBIG}, "allow larger files, for example with `ulimit -f unlimited`"),
    ({errno.EROFS}, "name a place that can be written"),
    ({errno.ENOENT}, "name a place that exists"),
)
_KNOWN = (LabError, TopoError, RpcError)
LOST = 4  # exit status of a command that went well and whose output could not be written


def run(command: Callable[[], object]) -> NoReturn:
    """Run a command and exit; every error is one sentence and its exit status, Ctrl-C is 130."""
    printed = install()
    try:
        with guarded(outermost=True):
            _check_directory()
            command()
        status: int | str | None = 0
    except SystemExit as end:
        status = end.code
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):  # typer ends so, and is silent
            _print("mrclab: interrupted")
    except BaseException as error:
        ignore_signals()
        status = _report(error)
    ignore_signals()
    printed.flush()
    if printed.error:
        lost = f"mrclab: its output was lost: {printed.error}; its files were written"
        _print(lost)
        status = status or LOST
    gc.freeze()  # the process ends: a garbage collection would only take time
    sys.exit(status)


def _check_directory() -> None:
    """Raise LabError where the current directory no longer exists."""
    try:
        Path.cwd()
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        why = "was removed" if gone else f"cannot be entered: {error.strerror}"
        raise LabError(f"the current directory {why}; change to one that exists, with `cd`") from None


def _report(error: BaseException) -> int:
    """Print the error on standard error; return the exit status."""
    if isinstance(error, ScenarioError):
        for line in error.mistakes:
            _print(line)
        return error.status
    if isinstance(error, _KNOWN):
        text, status = str(error), error.status if isinstance(error, LabError) else 2
    elif text := exhausted(error):
        status = 1
    elif isinstance(error, PermissionError):
        text, status = f"{error.filename}: permission denied; run the same command with sudo", 2
    elif isinstance(error, OSError):
        text, status = f"{plain(error)}; {remedy(error)}", 1
    elif isinstance(error, KeyboardInterrupt):
        text, status = "interrupted", Interrupted.status
    else:
        text, status = f"{_place(error)}: {type(error).__name__}: {_text(error)}; {_kept(error)}", 1
    _print(f"mrclab: {text}")
    return status


def _print(text: str) -> None:
    """Print a line on standard error."""

    from mrclab.lab import console  # noqa: PLC0415

    console.plain(console.console(stderr=True), text)


def remedy(error: OSError) -> str:
    """Return the remedy for an operating system error; a name without a folder may be that of a program."""
    if error.errno == errno.ENOENT and "/" not in str(error.filename or ""):
        return "name another place; `mrclab doctor` lists the programs that this machine lacks"
    return next((text for numbers, text in _REMEDIES if error.errno in numbers), "`mrclab doctor` checks this machine")


def _place(error: BaseException) -> str:
    """Return where an unexpected error comes from: the lab, or a package that adds kinds to it; module and line."""
    import traceback  # noqa: PLC0415 - rare

    from mrclab.topo.config import registry  # noqa: PLC0415 - it loads pydantic

    packages, outside, own = registry.outside_packages(), "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in packages:
            outside = f"error in {module}, line {line}"
        elif module.startswith("mrclab."):
            own = f" in {module}, line {line}"
    return outside or f"internal error{own}"


def _text(error: BaseException) -> str:
    """Return the text of an unexpected error; of a method that a class should have, their names."""
    import traceback  # noqa: PLC0415 - rare

    if not isinstance(error, NotImplementedError) or str(error):
        return str(error)
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return f"{type(frame.f_locals.get('self')).__name__} lacks the method {frame.f_code.co_name}"


def _kept(error: BaseException) -> str:
    """Return the file that holds the traceback of an unexpected error."""
    import tempfile  # noqa: PLC0415 - rare
    import traceback  # noqa: PLC0415

    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mrclab-", suffix=".log", delete=False) as file:
            file.write(text)
    except OSError:
        return f"its traceback, for a bug report: {text}"
    return f"its traceback is in {file.name}, for a bug report"


class Sink:
    """A text stream that discards output its underlying stream refuses. `error` says why, except for a closed
    pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False
        self.error = ""

    def write(self, text: str) -> int:
        """Write, or discard."""
        if not self._broken:
            try:
                self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or discard."""
        if not self._broken:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        if not isinstance(error, BrokenPipeError):
            self.error = error.strerror or str(error)
        with contextlib.suppress(OSError, ValueError):  # Python flushes the rest of its buffer when it ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _writable(stream: TextIO | None) -> TextIO:
    """Return a stream that takes every character; one to nowhere in place of one that was closed, which is None."""
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="replace")
    return stream


def install() -> Sink:
    """Put sinks in place of standard output and error; returns that of the output."""
    out, err = Sink(_writable(sys.stdout)), Sink(_writable(sys.stderr))
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    return out
