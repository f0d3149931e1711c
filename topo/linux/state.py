"""What a run has made on this machine, written down before or as it is made, so that it can be removed after any death.

One lab runs at a time per base directory (/run/mrclab): a lock on `lock`, held by the running process and dropped by
the kernel when that dies, says which. `state.json` names token, processes, namespaces and directories. `clean`
removes what it names and what carries its token, nothing else.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrclab.topo.errors import EmulationError, LabRunning
from mrclab.topo.linux import kernel, processes

BASE = Path("/run/mrclab")
_STATE_FILE = "state.json"
_LOCK_FILE = "lock"


@dataclass
class Record:
    """Contents of the state file."""

    token: str
    pid: int
    processes: dict[str, list[int]] = field(default_factory=dict)  # pid → [start time]; JSON wants text keys
    namespaces: dict[str, int] = field(default_factory=dict)  # name → inode; 0 until it is known
    directories: list[str] = field(default_factory=list)


class RunState:
    """The lock and the record of one run. Made by `claim`."""

    def __init__(self, base: Path, lock: int, record: Record) -> None:
        self.base, self._lock, self._record = base, lock, record

    @classmethod
    def claim(cls, base: Path = BASE, progress: Callable[[str], None] = lambda _: None) -> "RunState":
        """Take the lock, remove remains of a run that was killed, begin a record. LabRunning where a lab is alive."""
        lock = _take_lock(base)
        try:
            for line in _remove_recorded(base):
                progress(f"left by an earlier run: {line}")
            state = cls(base, lock, Record(secrets.token_hex(8), os.getpid()))
            state._save()
        except BaseException:
            os.close(lock)  # its files stay: they may name what could not be removed
            raise
        return state

    @property
    def token(self) -> str:
        """What marks this run's processes."""
        return self._record.token

    @property
    def environment(self) -> dict[str, str]:
        """Environment for everything this run starts."""
        return {**os.environ, processes.TOKEN_VARIABLE: self.token}

    def add_process(self, *pids: int) -> None:
        """Write down processes that were just started."""
        for pid in pids:
            began = processes.start_time(pid)
            if began is not None:
                self._record.processes[str(pid)] = [began]
        self._save()

    def drop_process(self, *pids: int) -> None:
        """Forget processes that have ended and been reaped."""
        for pid in pids:
            self._record.processes.pop(str(pid), None)
        self._save()

    def add_namespace(self, name: str) -> None:
        """Write down a named namespace before it is made; one that exists is refused, so that it is never removed."""
        if (kernel.NETNS_DIR / name).exists():
            raise EmulationError(f"a network namespace {name} exists already; remove it with `ip netns del {name}`")
        self._record.namespaces[name] = 0
        self._save()

    def confirm_namespace(self, name: str, descriptor: int) -> None:
        """Write down which namespace it became."""
        self._record.namespaces[name] = os.fstat(descriptor).st_ino
        self._save()

    def make_directory(self, path: Path) -> None:
        """Make a directory of this run; it goes with all its files on release. One that holds files is refused."""
        if path.exists() and any(path.iterdir()):
            raise EmulationError(f"the run directory {path} holds files already; remove it or name another")
        self._record.directories.append(str(path))
        self._save()
        path.mkdir(parents=True, exist_ok=True)

    def end_processes(self, grace: float = 0.0) -> None:
        """End every process of this run."""
        recorded = ((int(pid), began[0]) for pid, began in self._record.processes.items())
        processes.end_all(self.token, recorded, grace)
        self._record.processes.clear()
        self._save()

    def remove_namespaces(self) -> None:
        """Remove the named namespaces of this run with the interfaces in them."""
        for name, inode in list(self._record.namespaces.items()):
            _remove_namespace(name, inode)
            del self._record.namespaces[name]
        self._save()

    def release(self) -> None:
        """Remove everything that is left, files included, and give the lock back."""
        _remove(self._record)
        _finish(self.base, self._lock)

    def _save(self) -> None:
        path = self.base / _STATE_FILE
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(self._record.__dict__))
        draft.replace(path)


def clean(base: Path = BASE) -> list[str]:
    """Remove what a killed run left; returns one phrase per thing removed. LabRunning where that run is alive."""
    if not base.exists():
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
    """Names of the network namespaces that the run made; none where there is no run."""
    path = base / _STATE_FILE
    return list(_read(path).namespaces) if path.exists() else []


def running(base: Path = BASE) -> int | None:
    """Pid of the lab that runs, None where none does."""
    if not base.exists():
        return None
    try:
        os.close(_take_lock(base))
    except LabRunning as error:
        return error.pid
    return None


def _take_lock(base: Path) -> int:
    base.mkdir(parents=True, exist_ok=True)
    path = base / _LOCK_FILE
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
            os.close(lock)
            pid = int(holder) if holder.isdigit() else 0
            raise LabRunning(
                f"a lab is running already (process {pid or 'unknown'}); end it before another", pid
            ) from None
        if _same_file(lock, path):  # else its last holder removed it between our open and our lock
            os.truncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock
        os.close(lock)
        base.mkdir(parents=True, exist_ok=True)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def _finish(base: Path, lock: int) -> None:
    """Remove the files of this module, the base directory where it is empty then, and drop the lock."""
    for name in (_STATE_FILE, _STATE_FILE.replace(".json", ".tmp"), _LOCK_FILE):
        (base / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        base.rmdir()
    os.close(lock)


def _remove_recorded(base: Path) -> list[str]:
    path = base / _STATE_FILE
    try:
        record = _read(path)
    except FileNotFoundError:
        return []
    removed = _remove(record)
    path.unlink(missing_ok=True)
    return removed


def _read(path: Path) -> Record:
    text = path.read_text()
    try:
        data: dict[str, Any] = json.loads(text)
        return Record(**data)
    except (ValueError, TypeError) as error:
        raise EmulationError(f"the state file {path} is damaged ({error}); look at it and remove it by hand") from None


def _remove(record: Record) -> list[str]:
    recorded = ((int(pid), began[0]) for pid, began in record.processes.items())
    removed = [f"process {pid}" for pid in sorted(processes.end_all(record.token, recorded))]
    removed += [f"namespace {name}" for name, inode in record.namespaces.items() if _remove_namespace(name, inode)]
    for directory in record.directories:
        if Path(directory).exists():
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(f"directory {directory}")
    return removed


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
