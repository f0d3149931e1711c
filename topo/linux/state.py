"""Lock and marks of a run on this machine, by which all that it made can be found and removed, also after kill -9.

One lab runs at a time per base directory (/run/mrclab). The running process holds a lock on the file `lock` in it,
which the kernel drops when the process dies. No file lists what a run made: its processes have the base directory in
their environment, its namespace is named after it, and its directories contain a mark. `clean` removes exactly these,
and directories only inside the base directory. Everything belongs to root, whatever the umask. A base directory that
another user could change is refused before anything in it is read, and no link in it is followed.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from mrclab.topo.errors import EmulationError, LabRunning
from mrclab.topo.input import trust
from mrclab.topo.linux import kernel, killed, processes
from mrclab.topo.linux.paths import BASE

_LOCK_FILE = "lock"
_CLEAN = "clean"
_MARK_FILE = ".mrclab"  # in every directory of a run
_REMOVALS = 5  # attempts to remove a directory
_BASE_MODE, _DIRECTORY_MODE, _FILE_MODE = 0o755, 0o700, 0o600


class RunState:
    """Lock of one run, and the marks of its namespaces, processes and files. Made by `claim`."""

    def __init__(self, base: Path, lock: int) -> None:
        self.base, self._lock = base, lock
        self.token = secrets.token_hex(8)
        self._namespace = ""
        self._directories: list[Path] = []

    @classmethod
    def claim(cls, base: Path = BASE, progress: Callable[[str], None] = lambda _: None) -> "RunState":
        """Take the lock, and remove remains of a run that was killed. LabRunning where a lab is alive."""
        lock = _take_lock(base)
        try:
            for line in _remove_remains(base):
                progress(f"left by an earlier run: {line}")
        except BaseException:
            os.close(lock)
            raise
        return cls(base, lock)

    @property
    def environment(self) -> dict[str, str]:
        """Environment for everything this run starts."""
        return {**os.environ, **self.marks}

    @property
    def marks(self) -> dict[str, str]:
        """Environment that marks all processes of this run."""
        return {processes.TOKEN_VARIABLE: self.token, processes.BASE_VARIABLE: str(self.base.resolve())}

    def claim_namespace(self) -> str:
        """Return the name of the namespace that this run may make; an existing one is refused, and never removed."""
        name = namespace(self.base, "cables")
        if (kernel.NETNS_DIR / name).exists():
            raise EmulationError(
                f"a network namespace {name} exists already, perhaps of a running lab;"
                f" if none does, remove it with `ip netns del {name}`"
            )
        self._namespace = name
        return name

    def make_directory(self, path: Path) -> None:
        """Make a directory of this run; it goes with all its files on release. One that holds files is refused."""
        if path.exists() and any(path.iterdir()):
            raise EmulationError(f"the run directory {path} holds files already; remove it or name another")
        if not _is_inside(path, self.base):
            raise EmulationError(f"the run directory {path} is not inside {self.base}, which alone is cleaned up")
        self._directories.append(path)
        try:
            path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            path.chmod(_DIRECTORY_MODE)
            (path / _MARK_FILE).touch(_FILE_MODE)
        except OSError as error:
            what = f"the run directory {path} cannot be made: {error.strerror}"
            raise EmulationError(f"{what}; free space there, or give another --run-dir") from None

    def end_processes(self) -> None:
        """End every process of this run."""
        processes.end_all(self.token)

    def remove_namespace(self) -> None:
        """Remove the namespace of this run with the interfaces in it."""
        if self._namespace:
            _remove_namespace(self._namespace)
            self._namespace = ""

    def release(self) -> None:
        """Remove everything that is left, files included, and give the lock back."""
        self.end_processes()
        self.remove_namespace()
        for directory in self._directories:
            _remove_directory(directory)
        _finish(self.base, self._lock)


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
    """Remove the leftovers of a killed run; return one phrase for each. LabRunning where that run is alive."""
    if not base.exists() and base.resolve() not in processes.of_labs():
        return []
    lock = _take_lock(base, _CLEAN)
    try:
        removed = _remove_remains(base)
    except BaseException:
        os.close(lock)
        raise
    _finish(base, lock)
    return removed


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
        return _holder(lock)[0]
    finally:
        os.close(lock)
    return None


def _take_lock(base: Path, purpose: str = "") -> int:
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
            pid, other = _holder(lock)
            os.close(lock)
            named = f"process {pid or 'unknown'}"
            if other == _CLEAN:
                message = f"another `mrclab clean` is running ({named}); wait until it has ended"
            else:
                message = f"a lab is running already ({named}); end it first"
            raise LabRunning(message, pid) from None
        if _same_file(lock, path):  # else its last holder removed it between our open and our lock
            os.truncate(lock, 0)
            with contextlib.suppress(OSError):  # on a full disk the pid is missing; the lock is valid
                os.pwrite(lock, f"{os.getpid()} {purpose}".encode(), 0)
            return lock
        os.close(lock)
        _make_base(base)


def _holder(lock: int) -> tuple[int, str]:
    """Pid and purpose that the lock's holder has written into it; 0 where it has not."""
    pid, _, purpose = os.pread(lock, 40, 0).decode("ascii", "replace").strip().partition(" ")
    return (int(pid) if pid.isdigit() else 0), purpose


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
    """Remove the lock's file, the base directory where it is empty then, and drop the lock."""
    if base.resolve() not in _held:  # of a place that is held the lock stays
        (base / _LOCK_FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        base.rmdir()
    os.close(lock)


def _remove_remains(base: Path) -> list[str]:
    """Remove the leftovers of a killed run; return a phrase for each. Namespaces go only with other leftovers."""
    removed = [f"process {pid}" for pid in sorted(processes.end_all(base=base.resolve()))]
    marked = sorted(path.parent for path in base.glob(f"*/{_MARK_FILE}") if _is_inside(path.parent, base))
    name = namespace(base, "cables")
    if (removed or marked) and _remove_namespace(name):
        removed.append(f"namespace {name}")
    kept = {path: killed.keep(path) for path in marked}
    return removed + [f"directory {path}{kept[path]}" for path in marked if _remove_directory(path)]


def _is_inside(path: Path, base: Path) -> bool:
    """Return True if a directory is below a base, links and dots resolved."""
    return base.resolve() in path.resolve().parents


def _remove_directory(path: Path) -> bool:
    for _ in range(_REMOVALS):  # files made in it meanwhile are removed in the next attempt
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return True
    return False


def _remove_namespace(name: str) -> bool:
    """Remove a namespace; return False if there is none."""
    if not (kernel.NETNS_DIR / name).exists():
        return False
    kernel.delete_namespace(name)
    return True
