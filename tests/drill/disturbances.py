"""Damage done to a running lab from outside, and to which of its parts. Only processes of that lab are touched, of its
page and of a capture that this drill began.
"""

import contextlib
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import forgery

from mrclab.topo.linux import kernel, processes

STOP_S = 1.0  # seconds for which a process is stopped
LONG_STOP_S = 6.0  # the same of one that must be named; `--long` sets it
FORGE_S = 1.0  # seconds for which frames are forged
FLOOD_S = 1.0  # seconds of a flood
_FLOOD = 4  # connections, each with its own requests
_LINE = b'{"id": 1, "op": "' + b"x" * 4000 + b'"}\n'


_MODULES = {  # whose processes have one name only
    "mrclab.controller": "controller",
    "mrclab.topo.cables.relay": "relay",
    "mrclab.topo.cables.sender": "background",
}


@dataclass(frozen=True)
class Scene:
    """A lab that runs: where it is, its process, and where its results go."""

    run_dir: Path
    pid: int
    results: Path
    output: IO[bytes] | None = None  # the reading end of its standard output
    home: Path = Path()  # for files of the drill's own
    ended: threading.Event = field(default_factory=threading.Event)  # the lab is gone: nothing is stopped any longer
    captures: "list[subprocess.Popen[bytes]]" = field(default_factory=list)  # captures that are to end with the lab


@dataclass(frozen=True)
class Disturbance:
    """One thing to do. If it ends the run, the reason given must contain one of `reason_words`."""

    name: str
    do: Callable[[Scene, random.Random], str]  # what was done, to which
    fatal: bool  # the run cannot go on
    reason_words: tuple[str, ...] = ()
    part: str = ""  # beginning of the names of parts of which one must be there
    named: bool = False  # it takes long, and one of `reason_words` must be printed meanwhile, though the run may go on
    harmless: bool = False  # the run has to hold
    options: tuple[str, ...] = ()  # of `mrclab run`
    hosts: int = 1  # on each T0
    seconds: float = 0.0  # of traffic; 0: as usual

    def possible(self, scene: Scene) -> bool:
        """Return True if its target exists."""
        if not scene.run_dir.exists():
            return False
        if self.part == _PAGE:
            return _page(scene) is not None
        return not self.part or any(name.startswith(self.part) for name in parts(scene))


def parts(scene: Scene) -> dict[str, int]:
    """Pid of every process of the lab by a name as the lab says it."""
    found = {}
    for pid in processes.of_labs().get(scene.run_dir.parent.resolve(), ()):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").split()
            if name := _name(words):
                found[name] = pid
    return found


def _name(words: list[str]) -> str:
    if module := next((name for name in _MODULES if name in words), ""):
        return _MODULES[module]
    for word in words:
        if word.startswith("mininet:"):
            return f"shell-{word.removeprefix('mininet:')}"
        if word.endswith(".sock") and "mrclab.hosts.agent" in words:
            return Path(word).stem
        if word.startswith("1@"):
            return word.removeprefix("1@").rpartition("-")[0]
    return ""


def _one(scene: Scene, draw: random.Random, tier: str) -> tuple[str, int]:
    """One part of a sort; ProcessLookupError if there is none any more."""
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


def _stop_long(tier: str) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, draw: random.Random) -> str:
        name, pid = _one(scene, draw, tier)
        began = processes.start_time(pid)
        os.kill(pid, signal.SIGSTOP)
        scene.ended.wait(LONG_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            if processes.start_time(pid) == began:
                os.kill(pid, signal.SIGCONT)
        return name

    return do


def _page(scene: Scene) -> int | None:
    """The process of the page that the lab's own has started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == scene.pid and b"--attended" in (entry / "cmdline").read_bytes().split(b"\0"):
                    return int(entry.name)
    return None


def _to_page(*numbers: signal.Signals) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, _draw: random.Random) -> str:
        pid = _page(scene)
        if pid is None:
            raise ProcessLookupError(_PAGE)
        for number in numbers:
            os.kill(pid, number)
            time.sleep(STOP_S)
        return "the page's process"

    return do


def _capture(*, kill: bool) -> Callable[[Scene, random.Random], str]:
    def do(scene: Scene, draw: random.Random) -> str:
        code = "from mrclab.lab.command.cli import main; main()"
        words = ["--run-dir", str(scene.run_dir), "capture", "--output", str(scene.home / "capture.pcapng")]
        made = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert made.stdout is not None
        if not made.stdout.readline().startswith(b"capturing"):
            made.kill()
            made.communicate()
            raise ProcessLookupError("a lab to capture in")
        if kill:
            time.sleep(draw.uniform(0.0, 1.0))
            made.kill()
            made.communicate()
            return "a capture that is killed"
        scene.captures.append(made)
        return "a capture that goes on"

    return do


def _forge(scene: Scene, draw: random.Random) -> str:
    """h2 says to h1, which sends to h3, that h3 has no port, or one alone."""
    pid = parts(scene).get("h2")
    if pid is None:
        raise ProcessLookupError("h2")
    space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        end, number = time.monotonic() + FORGE_S, draw.randrange(1 << 16)
        while time.monotonic() < end:
            for plane in (1, 2):
                masks = (0, 1 << plane - 1)
                given = ("h2", "h3", "h1", plane)
                frames = [forgery.update(scene.run_dir, *given, mask, number + at) for at, mask in enumerate(masks)]
                kernel.in_namespace(space, functools.partial(forgery.send, f"h2-p{plane}", frames))
                number += len(masks)
            time.sleep(0.05)
    except OSError as error:
        raise ProcessLookupError(str(error)) from None  # the lab went down meanwhile
    finally:
        os.close(space)
    return "Port Status Updates of h2 in the name of h3"


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


def _flood(scene: Scene, draw: random.Random) -> str:
    paths = sorted(scene.run_dir.glob("*.sock"))
    if not paths:
        raise ProcessLookupError("a socket")
    path = draw.choice(paths)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(_FLOOD)]
        for connection in connections:
            try:
                connection.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):  # the server there has just ended
                raise ProcessLookupError(path.name) from None
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
CAPTURE = "leave a capture to the lab's end"
REMOVE_RESULTS, LEAVE = "remove the results", "leave its output"
_PAGE = "page"
_CAPTURED_S = 15.0  # of traffic, so that the command has begun on a busy machine too
_STOP = (signal.SIGSTOP, signal.SIGCONT)
_STOPPED = ("state T",)
_KILLED = ("was killed by SIGKILL",)
_FULL = ("is full", "No space left", "no more files can")
_GONE = ("was removed", "No such file")

ALL: tuple[Disturbance, ...] = (
    Disturbance("kill a switch", _kill("t"), True, _KILLED, "t"),
    Disturbance("kill an agent", _kill("h"), True, _KILLED, "h"),
    Disturbance("kill the controller", _kill("controller"), True, _KILLED, "controller"),
    Disturbance("kill a helper", _kill("relay"), True, _KILLED, "relay"),
    Disturbance("kill a background sender", _kill("background"), True, _KILLED, "background"),
    Disturbance("kill a node's shell", _kill("shell"), True, _KILLED, "shell"),
    Disturbance(KILL_LAB, _signal(signal.SIGKILL), True),
    Disturbance(INTERRUPT, _signal(signal.SIGINT, signal.SIGTERM, signal.SIGHUP), True, ("interrupted",)),
    Disturbance(f"{INTERRUPT} twice", _twice, True, ("interrupted",)),
    Disturbance("stop a switch", _stop("t"), False, part="t"),
    Disturbance("stop an agent", _stop("h"), False, part="h"),
    Disturbance("stop the controller", _stop("controller"), False, part="controller"),
    Disturbance("stop a helper", _stop("relay"), False, part="relay"),
    Disturbance("stop a background sender", _stop("background"), False, part="background"),
    Disturbance("stop a node's shell", _stop("shell"), False, part="shell"),
    Disturbance("stop the lab", _stop(""), False),
    Disturbance("stop a switch for long", _stop_long("t"), False, _STOPPED, "t", named=True),
    Disturbance("stop an agent for long", _stop_long("h"), False, _STOPPED, "h", named=True),
    Disturbance("stop the controller for long", _stop_long("controller"), False, _STOPPED, "controller", named=True),
    Disturbance("stop a helper for long", _stop_long("relay"), False, _STOPPED, "relay", named=True),
    Disturbance(
        "stop a background sender for long", _stop_long("background"), False, _STOPPED, "background", named=True
    ),
    Disturbance("kill the page", _to_page(signal.SIGKILL), False, part=_PAGE, options=("--ui",), harmless=True),
    Disturbance(
        "stop the page", _to_page(signal.SIGSTOP, signal.SIGCONT), False, part=_PAGE, options=("--ui",), harmless=True
    ),
    Disturbance("kill a capture", _capture(kill=True), False, part="controller", harmless=True, seconds=_CAPTURED_S),
    Disturbance(CAPTURE, _capture(kill=False), False, part="controller", harmless=True, seconds=_CAPTURED_S),
    Disturbance("forge frames", _forge, False, part="h2", hosts=2, harmless=True),
    Disturbance("fill the run directory", _fill(lambda scene: scene.run_dir), True, _FULL),
    Disturbance("fill the results", _fill(lambda scene: scene.results), False),
    Disturbance("remove the run directory", _remove(lambda scene: scene.run_dir.parent), True, _GONE),
    Disturbance(REMOVE_RESULTS, _remove(lambda scene: scene.results), False),
    Disturbance("flood a socket", _flood, False, part="t"),
    Disturbance(LEAVE, _leave, False),
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
