"""Record of what a run has made on this machine, written before or as it is made, so that it can always be removed.

One lab runs at a time per base directory (/run/mrclab): a lock on `lock`, held by the running process and dropped by
the kernel when that dies, says which. `state.json` names token, processes, namespaces and directories. `clean`
removes what it names and what carries its token, nothing else; of directories only those inside the base directory,
whatever the file says. Of a record that is lost or damaged it removes what is known without it: processes by the base
directory in their environment, the namespace by its name, directories by the mark in them. All of it is root's,
whatever the umask. A base directory that another user could change is refused before anything in it is believed, and no
link in it is followed.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict

from mrclab.topo.errors import DamagedRecord, EmulationError, LabRunning
from mrclab.topo.input import files, sentences, trust
from mrclab.topo.linux import kernel, killed, processes
from mrclab.topo.linux.paths import BASE

_STATE_FILE = "state.json"
_LOCK_FILE = "lock"
_MARK_FILE = ".mrclab"  # in every directory of a run
_REMOVALS = 5  # attempts to remove a directory
_BASE_MODE, _DIRECTORY_MODE, _FILE_MODE = 0o755, 0o700, 0o600


@dataclass
class StateRecord:
    """Contents of the state file."""

    token: str
    pid: int
    processes: dict[str, list[int]] = field(default_factory=dict)  # pid → [start time]; JSON wants text keys
    namespaces: dict[str, int] = field(default_factory=dict)  # name → inode; 0 until it is known
    directories: list[str] = field(default_factory=list)
    boot: str = ""  # which boot of the machine: pids and start times of another mean nothing


class _RecordData(TypedDict):
    """The same as JSON."""

    token: Annotated[str, Field(min_length=1)]
    pid: int
    processes: NotRequired[dict[Annotated[str, Field(pattern=r"^[0-9]+$")], Annotated[list[int], Field(min_length=1)]]]
    namespaces: NotRequired[dict[Annotated[str, Field(pattern=r"^[^/]+$")], int]]
    directories: NotRequired[list[str]]
    boot: NotRequired[str]


_RECORD = TypeAdapter(_RecordData)


class RunState:
    """The lock and the record of one run. Made by `claim`."""

    def __init__(self, base: Path, lock: int, record: StateRecord) -> None:
        self.base, self._lock, self._record = base, lock, record

    @classmethod
    def claim(cls, base: Path = BASE, progress: Callable[[str], None] = lambda _: None) -> "RunState":
        """Take the lock, remove remains of a run that was killed, begin a record. LabRunning where a lab is alive."""
        lock = _take_lock(base)
        try:
            for line in _remove_recorded(base):
                progress(f"left by an earlier run: {line}")
            state = cls(base, lock, StateRecord(secrets.token_hex(8), os.getpid(), boot=processes.boot_id()))
            state._save()
        except BaseException:
            os.close(lock)  # its files stay: they may name what could not be removed
            raise
        return state

    @property
    def token(self) -> str:
        """Token that marks this run's processes."""
        return self._record.token

    @property
    def environment(self) -> dict[str, str]:
        """Environment for everything this run starts."""
        return {**os.environ, **self.marks}

    @property
    def marks(self) -> dict[str, str]:
        """Environment that marks all processes of this run."""
        return {processes.TOKEN_VARIABLE: self.token, processes.BASE_VARIABLE: str(self.base.resolve())}

    def add_process(self, *pids: int) -> None:
        """Record processes that were just started."""
        for pid in pids:
            began = processes.start_time(pid)
            if began is not None:
                self._record.processes[str(pid)] = [began]
        self._save()

    def add_namespace(self, name: str) -> None:
        """Record a named namespace before it is made; an existing one is refused, so that it is never removed."""
        if (kernel.NETNS_DIR / name).exists():
            raise EmulationError(
                f"a network namespace {name} exists already, perhaps of a running lab;"
                f" if none does, remove it with `ip netns del {name}`"
            )
        self._record.namespaces[name] = 0
        self._save()

    def confirm_namespace(self, name: str, descriptor: int) -> None:
        """Record the namespace's inode."""
        self._record.namespaces[name] = os.fstat(descriptor).st_ino
        self._save()

    def make_directory(self, path: Path) -> None:
        """Make a directory of this run; it goes with all its files on release. One that holds files is refused."""
        if path.exists() and any(path.iterdir()):
            raise EmulationError(f"the run directory {path} holds files already; remove it or name another")
        if not _is_inside(path, self.base):
            raise EmulationError(f"the run directory {path} is not inside {self.base}, which alone is cleaned up")
        self._record.directories.append(str(path))
        self._save()
        path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        path.chmod(_DIRECTORY_MODE)
        with contextlib.suppress(OSError):  # the record names it as well
            (path / _MARK_FILE).write_text(self.token)

    def end_processes(self, grace: float = 0.0) -> None:
        """End every process of this run."""
        recorded = ((int(pid), began[0]) for pid, began in self._record.processes.items())
        processes.end_all(self.token, recorded, grace)
        self._record.processes.clear()
        self._note()

    def remove_namespaces(self) -> None:
        """Remove the named namespaces of this run with the interfaces in them."""
        for name, inode in list(self._record.namespaces.items()):
            _remove_namespace(name, inode)
            del self._record.namespaces[name]
        self._note()

    def release(self) -> None:
        """Remove everything that is left, files included, and give the lock back."""
        _remove(self._record, self.base)
        _finish(self.base, self._lock)

    def _note(self) -> None:
        """Update the record if possible: the rest must be removed in any case."""
        with contextlib.suppress(EmulationError):
            self._save()

    def _save(self) -> None:
        path = self.base / _STATE_FILE
        try:
            files.replace_file(path, json.dumps(self._record.__dict__), _FILE_MODE)
        except OSError as error:
            what = f"the lab's record {path} cannot be written: {error.strerror}"
            raise EmulationError(f"{what}; free space there, or give another --run-dir") from None


_held: dict[Path, int] = {}  # base directory → lock that this process holds between its runs


@contextlib.contextmanager
def hold(base: Path = BASE) -> Iterator[None]:
    """Keep the lock for this process inside the block, between its runs too. LabRunning where another has it."""
    lock = _take_lock(base)
    _held[base.resolve()] = lock
    try:
        yield
    finally:
        del _held[base.resolve()]
        _finish(base, lock)


def namespace(base: Path, what: str) -> str:
    """The name of a namespace of the lab in a base directory: no two directories have the same."""
    own = "" if base == BASE else f"-{hashlib.sha256(str(base.resolve()).encode()).hexdigest()[:8]}"
    return f"{base.name}{own}-{what}"


def clean(base: Path = BASE) -> list[str]:
    """Remove what a killed run left; returns one phrase per thing removed. LabRunning where that run is alive."""
    if not base.exists() and base.resolve() not in processes.of_labs():
        return []
    lock = _take_lock(base)
    try:
        removed = _remove_recorded(base)
    except BaseException:
        os.close(lock)
        raise
    _finish(base, lock)
    return removed


def namespaces(base: Path = BASE) -> list[str]:
    """Names of the network namespaces that the run made; empty without a run."""
    record = _record(base)
    return list(record.namespaces) if record else []


def recorded(base: Path = BASE) -> list[int]:
    """Pids of the processes that the run started, without its own; empty without a run."""
    record = _record(base)
    return [int(pid) for pid in record.processes] if record else []


def _record(base: Path) -> StateRecord | None:
    """The record in a trusted base directory; None if there is none."""
    trust.check_directory(base)
    try:
        return _read(base / _STATE_FILE)
    except FileNotFoundError:
        return None


def running(base: Path = BASE) -> int | None:
    """Pid of the lab that runs, None where none does. Makes nothing: it may go down at this moment."""
    if not base.exists() or base.resolve() in _held:
        return None
    trust.check_directory(base)
    try:
        lock = os.open(base / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        import fcntl  # noqa: PLC0415 - not on Windows, where no lab can run

        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(lock)
    finally:
        os.close(lock)
    return None


def _take_lock(base: Path) -> int:
    if base.resolve() in _held:
        _make_base(base)
        return os.dup(_held[base.resolve()])
    _make_base(base)
    path = base / _LOCK_FILE
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
        try:
            import fcntl  # noqa: PLC0415 - not on Windows, where no lab can run

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _holder(lock)
            os.close(lock)
            raise LabRunning(
                f"a lab is running already (process {pid or 'unknown'}); end it before another", pid
            ) from None
        if _same_file(lock, path):  # else its last holder removed it between our open and our lock
            os.truncate(lock, 0)
            with contextlib.suppress(OSError):  # on a full disk the pid is missing; the lock is valid
                os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock
        os.close(lock)
        _make_base(base)


def _holder(lock: int) -> int:
    """Pid that the lock's holder has written into it; 0 where it has not."""
    text = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else 0


def _make_base(base: Path) -> None:
    trust.check_directory(base)
    try:
        base.mkdir(mode=_BASE_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise EmulationError(
            f"the lab's directory {base} cannot be made: {error.strerror}; give another --run-dir"
        ) from None


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _finish(base: Path, lock: int) -> None:
    """Remove the files of this module, the base directory where it is empty then, and drop the lock."""
    files.remove_drafts(base / _STATE_FILE)  # of who was killed while it wrote
    kept = {_LOCK_FILE} if base.resolve() in _held else set()  # of a place that is held the lock stays
    for name in {_STATE_FILE, _LOCK_FILE} - kept:
        (base / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        base.rmdir()
    os.close(lock)


def _remove_recorded(base: Path) -> list[str]:
    path = base / _STATE_FILE
    try:
        record = _read(path)
    except FileNotFoundError:
        return _remove_unrecorded(base)
    except DamagedRecord:
        removed = [*_remove_unrecorded(base, was_there=True), f"record {path}, which was damaged"]
    else:
        removed = _remove(record, base, killed.keep)
    path.unlink(missing_ok=True)
    return removed


def _remove_unrecorded(base: Path, *, was_there: bool = False) -> list[str]:
    """Remove a run whose record is of no use: known by marks of processes and directories, and the namespace's name.

    The namespace and directories go only where something says that there was a run: `was_there`, or such a process.
    """
    left = {pid: began for pid in processes.of_labs().get(base.resolve(), ()) if (began := processes.start_time(pid))}
    left.pop(os.getpid(), None)
    removed = [f"process {pid}" for pid in sorted(processes.end(left))]
    if not removed and not was_there:
        return []
    name = namespace(base, "cables")
    if _remove_namespace(name, 0):
        removed.append(f"namespace {name}")
    marked = sorted(path.parent for path in base.glob(f"*/{_MARK_FILE}") if _is_inside(path.parent, base))
    kept = {path: killed.keep(path) for path in marked}
    return removed + [f"directory {path}{kept[path]}" for path in marked if _remove_directory(path)]


def _read(path: Path) -> StateRecord:
    """Read the record; DamagedRecord if it is invalid, FileNotFoundError if there is none."""
    try:
        return StateRecord(**_RECORD.validate_json(files.read_bytes(path, follow=False)))
    except FileNotFoundError:
        raise
    except (ValidationError, OSError) as error:
        what = sentences.first(error) if isinstance(error, ValidationError) else error.strerror
        raise DamagedRecord(
            f"the state file {path} is damaged ({what}); `mrclab clean` removes what is known without it"
        ) from None


def _is_inside(path: Path, base: Path) -> bool:
    """Return True if a directory is below a base, links and dots resolved."""
    return base.resolve() in path.resolve().parents


def _remove(record: StateRecord, base: Path, keep: Callable[[Path], str] = lambda _: "") -> list[str]:
    """Remove everything; `keep` saves files of a directory before it is removed, and returns a note."""
    of_this_boot = record.boot in {"", processes.boot_id()}
    recorded = ((int(pid), began[0]) for pid, began in record.processes.items() if of_this_boot)
    removed = [f"process {pid}" for pid in sorted(processes.end_all(record.token, recorded))]
    own = namespace(base, "")
    removed += [
        f"namespace {name}"
        for name, inode in record.namespaces.items()
        if of_this_boot and name.startswith(own) and _remove_namespace(name, inode)
    ]
    for directory in record.directories:
        if Path(directory).exists() and _is_inside(Path(directory), base):
            kept = keep(Path(directory))
            _remove_directory(Path(directory))
            removed.append(f"directory {directory}{kept}")
    return removed


def _remove_directory(path: Path) -> bool:
    for _ in range(_REMOVALS):  # files made in it meanwhile are removed in the next attempt
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return True
    return False


def _remove_namespace(name: str, inode: int) -> bool:
    """Remove a namespace that is the recorded one (inode 0: the run died while making it)."""
    try:
        found = (kernel.NETNS_DIR / name).stat().st_ino
    except FileNotFoundError:
        return False
    if inode and found != inode:
        return False
    kernel.delete_namespace(name)
    return True
