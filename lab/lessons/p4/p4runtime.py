"""Lesson 3: the learner's controller, run against a switch without a program, which must forward afterwards."""

import subprocess
import tempfile
from pathlib import Path

from mrclab.lab.command.live.p4sh import PYTHON
from mrclab.lab.command.p4build import P4_INFO, P4_JSON
from mrclab.lab.errors import Refused
from mrclab.lab.lessons.base import Check, read
from mrclab.lab.lessons.p4 import bench, routes
from mrclab.lab.lessons.parts import SwitchPart
from mrclab.topo.linux import killed

_LONGEST = 60.0  # seconds that a controller may take


def grade(path: Path, seed: int | None = None) -> list[Check]:
    """Program the switch of the lesson with the learner's controller, then send frames through it."""
    read(path)
    part = SwitchPart.drawn(seed)
    if not PYTHON.exists():
        raise Refused("p4runtime-shell is not set up; run `make setup`")
    with tempfile.TemporaryDirectory(prefix=killed.folder_prefix()) as place:
        socket = Path(place) / "p4rt.sock"
        with bench.served(socket) as device:
            error = _run(path, socket, place)
            if error:
                return [Check(False, "the controller runs to its end", error)]
            if device.run(lambda: device.info is None):
                return routes.checks(part, None)
            return routes.checks(part, lambda port, data: device.run(lambda: device.answer(port, data)))


def _run(path: Path, socket: Path, place: str) -> str:
    """Run the learner's controller; return its last output where it failed."""
    words = [str(PYTHON), str(path.absolute()), str(socket), str(P4_INFO), str(P4_JSON)]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_LONGEST, cwd=place)
    except subprocess.TimeoutExpired:
        return f"it took more than {_LONGEST:g} s; a write that a switch refuses hangs p4runtime-sh"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "" if done.returncode == 0 else lines[-1] if lines else f"exit status {done.returncode}"
