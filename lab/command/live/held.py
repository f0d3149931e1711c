"""Lab that a command in a second terminal means: the one on the wire, else this user's in virtual time.

A place that another user could have made is refused before anything in it is believed.
"""

import os
from pathlib import Path

from mrclab.lab.prompt import remote
from mrclab.topo import trust
from mrclab.topo.linux.paths import RUN_DIR


def virtual_run_dir() -> Path:
    """Directory in which this user's lab in virtual time keeps its socket and history."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "mrclab" if base else Path(f"/tmp/mrclab-{os.getuid()}")


def held_run_dir(run_dir: Path) -> Path:
    """Directory of the lab that somebody holds: the given one, else this user's virtual one."""
    places = [run_dir] if run_dir != RUN_DIR else [run_dir, virtual_run_dir()]
    return next((place for place in places if _served(place)), run_dir)


def virtual(run_dir: Path) -> Path | None:
    """The place of the lab in virtual time that is meant; None where none is held, or one on the wire is."""
    place = held_run_dir(run_dir)
    return place if place == virtual_run_dir() and _served(place) else None


def _served(place: Path) -> bool:
    """Return True if a place has a lab's socket; UntrustedPlace where another user may have put it there."""
    if not os.path.lexists(place):
        return False
    trust.check_private(place)
    return (place / remote.SOCKET).exists()
