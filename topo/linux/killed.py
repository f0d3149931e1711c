"""Remains of a killed run worth keeping: its history and logs, and unused temporary folders."""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from mrclab.topo.linux import kernel, paths, processes

_KEPT = ("history", "log", "node", "fabric.yaml")  # of a run directory; the rest are sockets and what was sent
_FOLDER = re.compile(r"mrclab-(\d+)-\w+")
_BENCH = re.compile(r"mrclab-bench-(\d+)-\w+")
_EMPTY = re.compile(r"mrclab-(?:[a-z0-9]+-)?[a-z0-9_]{8}")  # as mkdtemp names it
_UNUSED_S = 3600.0


def keep(directory: Path) -> str:
    """Move history and logs of a run directory that is to be removed where temporary files go.

    Returns the rest of the sentence that says so, empty where there is no history. Files that do not fit there are
    lost.
    """
    history = directory / "history"
    if history.is_symlink() or not history.is_dir() or not any(file.stat().st_size for file in history.iterdir()):
        return ""
    place = Path(tempfile.mkdtemp(prefix="mrclab-killed-"))
    try:
        for name in _KEPT:
            if (directory / name).exists() and not (directory / name).is_symlink():
                shutil.move(directory / name, place / name)
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        return f" (its history could not be kept in {place}: {error.strerror})"
    return f" (its history and logs are kept in {place})"


def remove_folders() -> list[str]:
    """Remove this user's folders of temporary files whose processes have ended; one phrase for each."""
    removed = []
    for path in (path for place in paths.folder_places() for path in place.glob("mrclab-*-*")):
        found = _FOLDER.fullmatch(path.name)
        with contextlib.suppress(OSError):
            own = found is not None and path.is_dir() and not path.is_symlink() and path.lstat().st_uid == os.getuid()
            if own and found is not None and processes.start_time(int(found[1])) is None:
                shutil.rmtree(path)
                removed.append(f"directory {path}")
    return [*removed, *_empty()]


def remove_benches() -> list[str]:
    """Remove the namespaces of ended benchmarks, and the processes that are left there; return a phrase for each."""
    removed = []
    for path in sorted(kernel.NETNS_DIR.glob("mrclab-bench-*")):
        found = _BENCH.fullmatch(path.name)
        if found is None or processes.start_time(int(found[1])) is not None:
            continue
        listed = subprocess.run(["ip", "netns", "pids", path.name], capture_output=True, text=True, check=False).stdout
        began = {int(pid): processes.start_time(int(pid)) for pid in listed.split()}
        processes.end({pid: start for pid, start in began.items() if start is not None})
        kernel.delete_namespace(path.name)
        removed.append(f"namespace {path.name}")
    return removed


def _empty() -> list[str]:
    """Remove this user's other folders of temporary files that nothing was put into for an hour."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob("mrclab-*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            old = time.time() - found.st_mtime > _UNUSED_S
            unnamed = _EMPTY.fullmatch(path.name) and not _FOLDER.fullmatch(path.name)
            if old and unnamed and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                path.rmdir()  # refuses one with something in it
                removed.append(f"directory {path}")
    return removed
