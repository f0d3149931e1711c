"""Lesson 3: the learner's controller, run against a switch without a program, which must forward afterwards."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrclab.lab.command.live.p4sh import PYTHON
from mrclab.lab.command.p4build import P4_INFO, P4_JSON
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.lessons.base import Check, read
from mrclab.lab.lessons.p4 import routes
from mrclab.lab.lessons.parts import SwitchPart
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo.linux import paths
from mrclab.topo.numbers import CPU_PORT, DROP_PORT, PRIORITIES

_LONGEST = 60.0  # seconds that a controller may take
DEVICE_ID = 1


def grade(path: Path, seed: int | None = None) -> list[Check]:
    """Program the switch of the lesson with the learner's controller, then send frames through it."""
    read(path)
    part = SwitchPart.drawn(seed)
    shell = next((each for each in (PYTHON, Path(".venv-p4sh/bin/python").absolute()) if each.exists()), None)
    if shell is None:
        raise Refused(
            "p4runtime-shell is not set up; in the root of the clone run `python3 -m venv .venv-p4sh &&"
            " .venv-p4sh/bin/pip install --no-deps -r requirements-p4sh.txt`, or `sudo make setup`"
        )
    with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as place:
        socket = Path(place) / "p4rt.sock"
        with served(socket) as device:
            error = _run(shell, path, socket, place)
            if error:
                return [Check(False, "the controller runs to its end", error)]
            if device.run(lambda: device.instance is None):
                return routes.checks(part, None)
            return routes.checks(part, lambda port, data: device.run(lambda: device.answer(port, data)))


def _run(shell: Path, path: Path, socket: Path, place: str) -> str:
    """Run the learner's controller with the Python of p4runtime-shell; return its last output where it failed."""
    words = [str(shell), str(path.absolute()), str(socket), str(P4_INFO), str(P4_JSON)]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_LONGEST, cwd=place)
    except subprocess.TimeoutExpired:
        return f"it took more than {_LONGEST:g} s; a write that a switch refuses hangs p4runtime-sh"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "" if done.returncode == 0 else lines[-1] if lines else f"exit status {done.returncode}"


class Bench(SoftSwitch):
    """A switch without sockets for its ports."""

    def __init__(self) -> None:
        super().__init__(CPU_PORT, DROP_PORT, PRIORITIES)
        self._sent: list[tuple[int, bytes]] = []

    def transmit(self, number: int, data: bytearray) -> None:
        """Keep sent frames."""
        self._sent.append((number, bytes(data)))

    def answer(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Inject a frame; return the frames sent: port and bytes of each."""
        self._sent.clear()
        self.inject(port, data)
        self.traffic.run()
        return list(self._sent)


@contextmanager
def served(socket: Path) -> Iterator[Bench]:
    """A switch without a program that serves P4Runtime at a Unix socket inside the block."""
    try:
        from mrclab.softswitch.p4runtime.server import P4RuntimeServer  # noqa: PLC0415 - of the extra wire
    except ImportError as error:
        raise LabError(
            f"{error.name} is missing; P4Runtime needs the packages for real frames: pip install '.[wire]'"
        ) from None
    switch = Bench()
    thread = threading.Thread(target=switch.loop, name="switch", daemon=True)
    thread.start()
    server = P4RuntimeServer(switch, f"unix:{socket}", DEVICE_ID)
    try:
        yield switch
    finally:
        server.stop()
        switch.stop()
        thread.join()
        switch.close()
