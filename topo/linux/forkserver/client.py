"""Fork server, the lab's side: its processes behave as those of subprocess do.

The lab becomes a subreaper: it is the parent of these processes, and of any that its other children leave behind.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, TypeAlias

from mrclab.rpc import peers
from mrclab.topo.linux import processes
from mrclab.topo.linux.forkserver import server

_MODULE = "mrclab.topo.linux.forkserver.server"
_ANSWER_TIMEOUT = 60.0  # seconds; the first response arrives when all is imported, one or two seconds after the start
_LOOK = 0.1  # seconds between two checks of a server that has not responded
_SILENCE = 5.0  # seconds of an idle server, without CPU time, after which it is given up
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_STOPPED, _WANTS_CPU = "T", "R"  # states of a process in /proc


class Forked:
    """A child of this process that another process forked. Thread-safe."""

    def __init__(self, pid: int, argv: Sequence[str]) -> None:
        self.pid, self.args = pid, list(argv)
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        with self._lock:
            if self.returncode is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # with SIGCHLD ignored the status is lost; subprocess returns 0 as well
                    pid, status = self.pid, 0
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; subprocess.TimeoutExpired after `timeout` seconds."""
        if (status := self.poll()) is not None:
            return status
        processes.wait_for_end([self.pid], timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def send_signal(self, sig: int, /) -> None:
        """Signal it, unless it has ended."""
        self.poll()
        with self._lock:  # no other thread may reap it meanwhile: its pid would be free
            if self.returncode is None:
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


Process: TypeAlias = Forked | subprocess.Popen[bytes]
"""A child of the lab."""


class ForkServer:
    """A process that starts `python -m MODULE …` by a fork, for modules given as name → word for its `prepare`.

    One that is killed or frozen takes nothing with it, since the processes that it started are children of this one;
    the next start finds that out, and another takes its place. Safe to use from several threads.
    """

    def __init__(self, modules: Mapping[str, str], environment: Mapping[str, str], umask: int) -> None:
        self._modules, self._environment, self._umask = modules, dict(environment), umask
        self._gone = False
        self._silent = 0  # servers in a row that have not answered yet
        self._lock = threading.Lock()
        _adopt_orphans()
        self._launch()

    def _launch(self) -> None:
        self._silent += 1
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_ANSWER_TIMEOUT)
        argv = [sys.executable, "-m", _MODULE, "--socket", str(theirs.fileno()), "--room", "." * server.ROOM]
        with theirs:
            self._process = subprocess.Popen(
                [*argv, *(f"{name}={word}" for name, word in self._modules.items())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self._environment | {server.NO_ENVIRONMENT: "1"},
                start_new_session=True,
                umask=self._umask,
                pass_fds=[theirs.fileno()],
            )

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def serves(self, argv: Sequence[str]) -> bool:
        """Return True if a command line is of a module that it has."""
        words = list(argv[:3])
        return not self._gone and any(words == [sys.executable, "-m", module] for module in self._modules)

    def start(self, name: str, argv: Sequence[str], node: int | None, output: IO[bytes]) -> Forked | None:
        """Start what it `serves` as `name`, in the namespaces of the process `node`; None where it cannot.

        `output` becomes its standard output and error. `pid` is another afterwards where another server had to start.
        """
        request = json.dumps({"name": name, "argv": list(argv), "node": node}).encode()
        with self._lock:
            reply = self._ask(request, output)
            if not reply and self._silent < 2:
                self.close()
                self._launch()
                reply = self._ask(request, output)
            if "pid" not in reply:
                self._gone = True
                self._process.kill()
                return None
            self._silent = 0
        return Forked(int(reply["pid"]), argv)

    def _ask(self, request: bytes, output: IO[bytes]) -> dict[str, Any]:
        """Return its response; empty if it has exited, which is noted."""
        try:
            socket.send_fds(self._socket, [request], [output.fileno()])
            if not self._will_answer():
                self._process.kill()
                self._process.wait()  # its last output can still be read
            reply: dict[str, Any] = json.loads(self._socket.recv(server.MAX_REQUEST) or "{}")
        except OSError:
            return {}
        return reply

    def _will_answer(self) -> bool:
        """Wait until it has answered or hung up; False where it is stopped or does nothing at all."""
        used, since, end = -1, 0.0, time.monotonic() + _ANSWER_TIMEOUT
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        while not poller.poll(_LOOK * 1000):
            now, (state, nanoseconds) = time.monotonic(), _activity(self._process.pid)
            if nanoseconds != used or state == _WANTS_CPU:
                used, since = nanoseconds, now
            if state == _STOPPED or now - since > _SILENCE or now > end:
                return False
        return True

    def close(self) -> None:
        """End the server. Its processes keep running."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _adopt_orphans() -> None:
    """Become the subreaper: the parent of the processes that the fork server forks."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl: the lab cannot adopt the processes of its fork server")


def _activity(pid: int) -> tuple[str, int]:
    """A process's state, one letter, and the CPU time in ns that it has used."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return peers.stat_fields(pid)[0], processes.run_and_wait_ns(pid)[0]
    return "", 0
