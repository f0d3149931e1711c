"""Directories that the lab trusts: only root and the user who runs it can change their contents.

A directory of another user's, one that everybody may write to, or a link that another user made on the way to it, lets
that user put a socket, a record or a link in place of the lab's own.
"""

import os
import stat
from pathlib import Path

from mrclab.topo.errors import UntrustedPlace

_MAX_LINKS = 40  # as the kernel follows (path_resolution(7))


def trusted_users() -> frozenset[int]:
    """User ids whose files are believed: root's, one's own, and that of the owner of `/` (root of a container)."""
    return frozenset({0, os.geteuid(), Path("/").lstat().st_uid})


def check_directory(path: Path) -> None:
    """Raise UntrustedPlace unless every directory and link on the way to `path` belongs to a trusted user.

    A path that does not exist yet is safe: the directory that it would be made in is checked. Directories that others
    may write to are passed only where they are sticky, as /tmp is: no user can rename or remove another's entries
    there. Checked from the root down, so that others cannot change a checked part afterwards.
    """
    if not hasattr(os, "geteuid"):
        return
    users = trusted_users()
    here, rest, links = Path("/"), list(path.absolute().parts[1:]), 0
    _check(here, here.lstat(), users, path)
    while rest:
        part = rest.pop(0)
        if part in {"", "."}:
            continue
        if part == "..":
            here = here.parent
            continue
        try:
            found = (here / part).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISLNK(found.st_mode):
            here = here / part
            _check(here, found, users, path)
            continue
        links += 1
        _check_owner(here / part, found, users, path)
        if links > _MAX_LINKS:
            raise UntrustedPlace(f"{path}: too many symbolic links; name another directory")
        target = (here / part).readlink()
        rest = [*(target.parts[1:] if target.is_absolute() else target.parts), *rest]
        here = Path("/") if target.is_absolute() else here


def check_private(path: Path) -> None:
    """Raise UntrustedPlace unless `path` is a directory and no link, of a trusted user, writable by no other user."""
    if not hasattr(os, "geteuid"):
        return
    check_directory(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no directory"
        raise UntrustedPlace(f"{path} is {kind}, where the lab keeps its files; remove it")
    if _others_write(found):
        raise UntrustedPlace(
            f"{path} can be written by other users (mode {stat.S_IMODE(found.st_mode):04o});"
            " `chmod 700` it, or remove it"
        )


def make_private(path: Path) -> None:
    """Make a directory for this user alone, parents included; UntrustedPlace where another user has a hand in it."""
    check_directory(path)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(path)


def _check(place: Path, found: os.stat_result, users: frozenset[int], path: Path) -> None:
    _check_owner(place, found, users, path)
    if stat.S_ISDIR(found.st_mode) and _others_write(found) and not found.st_mode & stat.S_ISVTX:
        raise UntrustedPlace(
            f"{path} is not safe: other users may write to {place} (mode {stat.S_IMODE(found.st_mode):04o});"
            f" name another directory, or `chmod go-w {place}`"
        )


def _others_write(found: os.stat_result) -> bool:
    """Return True if others than the owner may write; root's group and a user's private group have no others."""
    in_group = found.st_mode & stat.S_IWGRP and found.st_gid not in {0, found.st_uid}
    return bool(found.st_mode & stat.S_IWOTH or in_group)


def _check_owner(place: Path, found: os.stat_result, users: frozenset[int], path: Path) -> None:
    if found.st_uid not in users:
        what = "link" if stat.S_ISLNK(found.st_mode) else "directory" if stat.S_ISDIR(found.st_mode) else "file"
        raise UntrustedPlace(
            f"{path} is not safe: the {what} {place} belongs to another user (uid {found.st_uid}); name a directory"
            " of your own"
        )
