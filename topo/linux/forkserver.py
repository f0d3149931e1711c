"""A process that has imported what others are going to run, and starts each of them by a fork: `python -m
mrclab.topo.linux.forkserver --socket FD MODULE=WORD…`.

A new Python that imports gRPC takes as long as fifty forks, and nothing of what it imports is shared. The fork is made
with CLONE_PARENT (clone(2)), so that it is a child of whoever started this process, the lab, which waits for it and
signals it like any other child; that this process lives is of no matter to it then. Nothing here makes a thread or a
gRPC core. A fork carries the environment of this process, by which it is found, and a command line of its own.

A module is a package whose `__main__` has `main(argv)`; where it has `prepare(word)` as well, that comes before the
first fork.
"""

import argparse
import ctypes
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

ROOM = 8192  # bytes of a command line that a fork can have
GAP_BYTES = 60_000  # what the half-empty pages of each size of objects take at most
LARGEST_OBJECT, OBJECT_STEP = 512, 16  # bytes: what Python puts on pages of one size each (Objects/obmalloc.c)
MAX_REQUEST = 1 << 16  # bytes

_SYS_CLONE3 = 435  # the same number on every architecture
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x0020_0000, 0x0100_0000
_PR_SET_NAME, _PR_GET_TID_ADDRESS = 15, 40
_ARG_START, _ARG_END = 45, 46  # of /proc/self/stat, counted after the command name

_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, as os.fork does


def fork_sibling() -> int:
    """As os.fork, but the new process is a child of this one's parent. OSError where the kernel refuses that."""
    thread = ctypes.c_void_p()  # where the C library keeps the number of this thread; its own fork renews it likewise
    flags = _CLONE_PARENT
    if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(thread), 0, 0, 0) == 0:
        flags |= _CLONE_CHILD_CLEARTID | _CLONE_CHILD_SETTID
    arguments = (ctypes.c_uint64 * 8)(flags, 0, thread.value or 0, 0, 0, 0, 0, 0)  # struct clone_args, first version
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _libc.syscall(ctypes.c_long(_SYS_CLONE3), arguments, ctypes.c_size_t(ctypes.sizeof(arguments)))
    error = ctypes.get_errno()
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone3: {os.strerror(error)}")
    return pid


def entitle(name: str, argv: Sequence[str]) -> None:
    """Be called `name`, with `argv` as the command line, as far as there is room for its words."""
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    words = b""
    for word in argv:
        more = os.fsencode(word) + b"\0"
        if len(words) + len(more) > end - start:
            break
        words += more
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, words, len(words))


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
    entitle(str(request["name"]), argv)
    if isinstance(node := request["node"], int):
        enter(node)
    module = modules[argv[2]]
    sys.argv = [str(module.__file__), *argv[3:]]
    sys.exit(module.main(argv[3:]))


def _serve(requests: socket.socket, modules: dict[str, ModuleType]) -> None:
    """Answer each request with the new process's number, or why there is none, until the lab hangs up."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, 1)
        if not data:
            return
        try:
            pid = fork_sibling()
        except OSError as error:
            answer: dict[str, object] = {"error": str(error)}
        else:
            if pid == 0:
                requests.close()
                _become(json.loads(data), descriptors[0], modules)
            answer = {"pid": pid}
        os.close(descriptors[0])
        requests.send(json.dumps(answer).encode())


def _prepare(wanted: Sequence[str]) -> dict[str, ModuleType]:
    modules = {}
    for text in wanted:
        name, _, word = text.partition("=")
        modules[name] = importlib.import_module(f"{name}.__main__")
        if hasattr(modules[name], "prepare"):
            modules[name].prepare(word)
    return modules


def _gap_fillers() -> list[bytes]:
    """Objects for the gaps that imports left: what a fork makes lies on pages of its own then, and copies fewer."""
    least = sys.getsizeof(b"")
    sizes = range(least // OBJECT_STEP * OBJECT_STEP + OBJECT_STEP, LARGEST_OBJECT + 1, OBJECT_STEP)
    return [bytes(size - least) for size in sizes for _ in range(GAP_BYTES // size)]


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the lab hangs up; return the exit status."""
    parser = argparse.ArgumentParser(prog="mrclab.topo.linux.forkserver")
    parser.add_argument("--socket", type=int, required=True, help="descriptor on which requests come")
    parser.add_argument("--room", default="", help="only takes up room, for the command lines of forks")
    parser.add_argument("modules", nargs="+", metavar="MODULE=WORD", help="package that forks run")
    options = parser.parse_args(argv)
    entitle("forkserver", [sys.executable, "-m", "mrclab.topo.linux.forkserver"])
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
