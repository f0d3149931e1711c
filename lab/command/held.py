"""Which lab a command in a second terminal means: the one on the wire, else this user's in virtual time."""

import os
from pathlib import Path

from mrclab.lab.prompt import service
from mrclab.lab.run.wire.attach import RUN_DIR


def virtual_run_dir() -> Path:
    """Where this user's lab in virtual time keeps its socket and history."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "mrclab" if base else Path(f"/tmp/mrclab-{os.getuid()}")


def held_run_dir(run_dir: Path) -> Path:
    """Where the lab that somebody holds has its socket: the given one, else this user's virtual one."""
    places = [run_dir] if run_dir != RUN_DIR else [run_dir, virtual_run_dir()]
    return next((place for place in places if (place / service.SOCKET).exists()), run_dir)


def virtual(run_dir: Path) -> Path | None:
    """The place of the lab in virtual time that is meant; None where none is held, or one on the wire is."""
    place = held_run_dir(run_dir)
    return place if place == virtual_run_dir() and (place / service.SOCKET).exists() else None
