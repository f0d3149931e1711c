"""What is done to a running lab from outside, and to which of its parts. Only processes of that lab are touched."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mrclab.topo.linux import processes

STOP_S = 1.0  # seconds for which a stopped process stands still
FLOOD_S = 1.0  # seconds of a flood
_FLOOD = 4  # connections, each with its own requests
_LINE = b'{"id": 1, "op": "' + b"x" * 4000 + b'"}\n'


@dataclass(frozen=True)
class Scene:
    """A lab that runs: where it is, its process, and where its results go."""

    run_dir: Path
    pid: int
    results: Path
    output: IO[bytes] | None = None  # the reading end of its standard output


@dataclass(frozen=True)
class Mischief:
    """One thing to do. `says` are words of which one must be in the reason that is given, where the run ends by it."""

    name: str
    do: Callable[[Scene, random.Random], str]  # what was done, to which
    fatal: bool  # the run cannot go on
    says: tuple[str, ...] = ()
    part: str = ""  # beginning of the names of parts of which one must be there

    def possible(self, scene: Scene) -> bool:
        """Whether what it is done to is there."""
        return scene.run_dir.exists() and (not self.part or any(name.startswith(self.part) for name in parts(scene)))


def parts(scene: Scene) -> dict[str, int]:
    """Pid of every process of the lab by a name as the lab says it."""
    found = {}
    for pid in processes.of_labs().get(scene.run_dir.parent.resolve(), ()):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
            if name := _name(words):
                found[name] = pid
    return found


def _name(words: list[str]) -> str:
    if "mrclab.controller" in words:
        return "controller"
    if "mrclab.topo.cables.relay" in words:
        return "relay"
    for word in words:
        if word.startswith("mininet:"):
            return f"shell-{word.removeprefix('mininet:')}"
        if word.endswith(".sock") and "mrclab.hosts.agent" in words:
            return Path(word).stem
        if word.startswith("1@"):
            return word.removeprefix("1@").rpartition("-")[0]
    return ""


def _one(scene: Scene, draw: random.Random, tier: str) -> tuple[str, int]:
    """One part of a sort; ProcessLookupError where there is none any more."""
    names = {name: pid for name, pid in parts(scene).items() if name.startswith(tier)}
    if not names:
        raise ProcessLookupError(tier)
    name = draw.choice(sorted(names))
    return name, names[name]


def _kill(tier: str) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, draw: random.Random) -> str:
        name, pid = _one(scene, draw, tier)
        os.kill(pid, signal.SIGKILL)
        return name

    return do


def _stop(tier: str) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, draw: random.Random) -> str:
        name, pid = ("the lab itself", scene.pid) if not tier else _one(scene, draw, tier)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        return name

    return do


def _fill(where: Callable[[Scene], Path]) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, _draw: random.Random) -> str:
        place = where(scene)
        with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        return str(place)

    return do


def _remove(where: Callable[[Scene], Path]) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, _draw: random.Random) -> str:
        place = where(scene)
        for entry in list(place.iterdir()):  # the place itself may be where a file system is mounted
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
        return f"all of {place}"

    return do


def _damage(scene: Scene, draw: random.Random) -> str:
    path = scene.run_dir.parent / "state.json"
    path.write_text(draw.choice(["", "{", "[]", '{"token": 3}']))
    return str(path)


def _flood(scene: Scene, draw: random.Random) -> str:
    paths = sorted(scene.run_dir.glob("*.sock"))
    if not paths:
        raise ProcessLookupError("a socket")
    path = draw.choice(paths)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(_FLOOD)]
        for connection in connections:
            connection.connect(str(path))
            connection.setblocking(False)
        end = time.monotonic() + FLOOD_S
        while time.monotonic() < end:
            for connection in connections:
                with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                    connection.send(_LINE)
                with contextlib.suppress(BlockingIOError, ConnectionResetError):
                    connection.recv(1 << 16)
    return path.name


def _signal(*numbers: signal.Signals) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, draw: random.Random) -> str:
        number = draw.choice(numbers)
        os.kill(scene.pid, number)
        return number.name

    return do


def _twice(scene: Scene, draw: random.Random) -> str:
    os.kill(scene.pid, signal.SIGINT)
    time.sleep(draw.uniform(0.0, 0.5))
    with contextlib.suppress(ProcessLookupError):
        os.kill(scene.pid, signal.SIGINT)
    return "SIGINT, SIGINT"


def _leave(scene: Scene, _draw: random.Random) -> str:
    assert scene.output is not None
    scene.output.close()
    return "its reader has left"


KILL_LAB, INTERRUPT = "kill the lab", "interrupt the lab"
REMOVE_RESULTS, LEAVE = "remove the results", "leave its output"
_KILLED = ("was killed by SIGKILL",)
_FULL = ("is full", "No space left", "takes no more")
_GONE = ("was removed", "No such file")

ALL: tuple[Mischief, ...] = (
    Mischief("kill a switch", _kill("t"), True, _KILLED, "t"),
    Mischief("kill an agent", _kill("h"), True, _KILLED, "h"),
    Mischief("kill the controller", _kill("controller"), True, _KILLED, "controller"),
    Mischief("kill a helper", _kill("relay"), True, _KILLED, "relay"),
    Mischief("kill a node's shell", _kill("shell"), True, _KILLED, "shell"),
    Mischief(KILL_LAB, _signal(signal.SIGKILL), True),
    Mischief(INTERRUPT, _signal(signal.SIGINT, signal.SIGTERM, signal.SIGHUP), True, ("interrupted",)),
    Mischief(f"{INTERRUPT} twice", _twice, True, ("interrupted",)),
    Mischief("stop a switch", _stop("t"), False, part="t"),
    Mischief("stop an agent", _stop("h"), False, part="h"),
    Mischief("stop the controller", _stop("controller"), False, part="controller"),
    Mischief("stop a helper", _stop("relay"), False, part="relay"),
    Mischief("stop a node's shell", _stop("shell"), False, part="shell"),
    Mischief("stop the lab", _stop(""), False),
    Mischief("fill the run directory", _fill(lambda scene: scene.run_dir), True, _FULL),
    Mischief("fill the results", _fill(lambda scene: scene.results), False),
    Mischief("remove the run directory", _remove(lambda scene: scene.run_dir.parent), True, _GONE),
    Mischief(REMOVE_RESULTS, _remove(lambda scene: scene.results), False),
    Mischief("damage the record", _damage, False),
    Mischief("flood a socket", _flood, False, part="t"),
    Mischief(LEAVE, _leave, False),
)


@contextlib.contextmanager
def small_disk(place: Path, mib: int) -> Iterator[None]:
    """A file system of its own at a place, that can be filled."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
