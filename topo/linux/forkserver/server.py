"""Fork server: a process that has imported the modules of others, and starts each of them by a fork: `python -m
mrclab.topo.linux.forkserver.server --socket FD MODULE=WORD…`.

A new Python that imports gRPC takes as long as fifty forks, and shares none of its imports. Each process is
forked twice: the one in between exits at once, and the kernel hands its child to the lab, which is a subreaper
(PR_SET_CHILD_SUBREAPER of prctl(2), set by `client`). So the lab waits for it and signals it like any other child, and
does not depend on this process living on. Nothing here makes a thread or a gRPC core. A fork has the environment of
this process, by which it is found.

A module is a package whose `__main__` has `main(argv)`; where it has `prepare(word)` as well, that comes before the
first fork.
"""

import argparse
import contextlib
import ctypes
import errno
import gc
import importlib
import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

ROOM = 8192  # bytes for the titles of forks, which setproctitle writes over the command line
GAP_BYTES = 60_000  # most memory of half-empty pages, by object size
LARGEST_OBJECT, OBJECT_STEP = 512, 16  # bytes: what Python puts on pages of one size each (Objects/obmalloc.c)
MAX_REQUEST = 1 << 16  # bytes
NO_ENVIRONMENT = "SPT_NOENV"  # setproctitle leaves the environment alone where it is set: it has the run's token

_libc = ctypes.PyDLL(None, use_errno=True)


def fork_for_parent() -> int:
    """As os.fork, but the new process is a child of this one's parent, a subreaper. OSError where the kernel refuses.

    When the parent learns of it, it is its child already: the process in between has been waited for.
    """
    ours, theirs = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            os.close(ours)
            pid = _fork_quietly()
            if pid == 0:
                os.close(theirs)
                return 0
            os.write(theirs, str(pid).encode())
            os._exit(0)
        os.close(theirs)
        theirs = -1
        os.waitpid(between, 0)
        pid = int(os.read(ours, 20) or -1)
    finally:
        for descriptor in (ours, theirs):
            with contextlib.suppress(OSError):
                os.close(descriptor)
    if pid < 0:
        raise OSError(errno.EAGAIN, "there are too many processes")
    return pid


def _fork_quietly() -> int:
    """As os.fork; -1 where the kernel refuses."""
    try:
        return os.fork()
    except OSError:
        return -1


def set_title(name: str, argv: Sequence[str]) -> None:
    """Be called `name` in `ps` and `top`, with `argv` as the command line. For display only."""
    with contextlib.suppress(ImportError):
        from setproctitle import setproctitle, setthreadtitle  # noqa: PLC0415 - a lab runs without

        setproctitle(" ".join(argv))
        setthreadtitle(name)


def enter(pid: int) -> None:
    """Go into the network and mount namespaces of a process, and stay in the same directory. OSError where not."""
    place = Path.cwd()
    descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "mnt")]
    for descriptor in descriptors:
        if _libc.setns(descriptor, 0):
            error = ctypes.get_errno()
            raise OSError(error, f"setns: {os.strerror(error)}")
        os.close(descriptor)
    os.chdir(place)


def _become(request: dict[str, object], output: int, modules: dict[str, ModuleType]) -> NoReturn:
    """Become the command in a fork: leave everything of this process behind, then run the command line."""
    os.setsid()
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    argv = [str(word) for word in request["argv"]]  # type: ignore[attr-defined]
    set_title(str(request["name"]), argv)
    if isinstance(node := request["node"], int):
        enter(node)
    module = modules[argv[2]]
    sys.argv = [str(module.__file__), *argv[3:]]
    sys.exit(module.main(argv[3:]))


def _serve(requests: socket.socket, modules: dict[str, ModuleType]) -> None:
    """Respond to each request with the new pid or an error, until the lab closes the socket."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, 1)
        if not data:
            return
        try:
            pid = fork_for_parent()
        except OSError as error:
            answer: dict[str, object] = {"error": str(error)}
        else:
            if pid == 0:
                requests.close()
                _become(json.loads(data), descriptors[0], modules)
            answer = {"pid": pid}
        os.close(descriptors[0])
        requests.send(json.dumps(answer).encode())


def _prepare(given: Sequence[str]) -> dict[str, ModuleType]:
    modules = {}
    for text in given:
        name, _, word = text.partition("=")
        modules[name] = importlib.import_module(f"{name}.__main__")
        if hasattr(modules[name], "prepare"):
            modules[name].prepare(word)
    return modules


def _gap_fillers() -> list[bytes]:
    """Objects for the gaps that imports left: a fork's new objects then lie on their own pages, and it copies fewer."""
    least = sys.getsizeof(b"")
    sizes = range(least // OBJECT_STEP * OBJECT_STEP + OBJECT_STEP, LARGEST_OBJECT + 1, OBJECT_STEP)
    return [bytes(size - least) for size in sizes for _ in range(GAP_BYTES // size)]


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the lab hangs up; return the exit status."""
    parser = argparse.ArgumentParser(prog="mrclab.topo.linux.forkserver.server")
    parser.add_argument("--socket", type=int, required=True, help="descriptor on which requests come")
    parser.add_argument("--room", default="", help="placeholder for the titles of forks")
    parser.add_argument("modules", nargs="+", metavar="MODULE=WORD", help="package that forks run")
    options = parser.parse_args(argv)
    set_title("forkserver", [sys.executable, "-m", "mrclab.topo.linux.forkserver.server"])
    gc.disable()
    modules = _prepare(options.modules)
    gc.collect()
    _fillers = _gap_fillers()  # they stay as long as this call, in forks too
    gc.freeze()  # a collection in a fork would write to all that is shared
    gc.enable()
    with socket.socket(fileno=options.socket) as requests:
        _serve(requests, modules)
    return 0


if __name__ == "__main__":
    sys.exit(main())
