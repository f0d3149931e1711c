"""Lookup of the lab for a command in a second terminal: the one on the wire, else this user's in virtual time. A
directory that another user could have created is refused before anything in it is read.
"""

import os
import sys
from pathlib import Path

from mrclab.lab.prompt.remote import client
from mrclab.topo.input import trust
from mrclab.topo.linux.paths import RUN_DIR


def virtual_run_dir(run_dir: Path = RUN_DIR) -> Path:
    """Directory in which a lab in virtual time keeps its socket and history: the given one, else this user's."""
    if run_dir != RUN_DIR:
        return run_dir
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "mrclab" if base else Path(f"/tmp/mrclab-{os.getuid()}")


def running_dir(run_dir: Path) -> Path:
    """Directory of the running lab: the given one, else this user's virtual one."""
    places = [run_dir] if run_dir != RUN_DIR else [run_dir, virtual_run_dir()]
    return next((place for place in places if _served(place)), run_dir)


def virtual(run_dir: Path) -> Path | None:
    """The directory of the lab in virtual time; None where none runs, or one runs on the wire."""
    place = running_dir(run_dir)
    return place if _served(place) and place != RUN_DIR and not on_the_wire(place) else None


def on_the_wire(run_dir: Path) -> bool:
    """Return True if a lab on the wire runs in a run directory."""
    if sys.platform != "linux":
        return False
    from mrclab.topo.linux import state  # noqa: PLC0415 - Linux alone has what it needs

    return state.running(run_dir.parent) is not None


def _served(place: Path) -> bool:
    """Return True if a directory has a lab's socket; raise UntrustedPlace where another user may have created it."""
    if not os.path.lexists(place):
        return False
    trust.check_private(place)
    return (place / client.SOCKET).exists()
