"""Processes that a fork server starts, from the side of the lab: they behave as those of subprocess do."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

from mrclab.topo.linux import forkserver

_MODULE = "mrclab.topo.linux.forkserver"
_ANSWER_TIMEOUT = 60.0  # seconds; the first answer comes when all is imported, one or two seconds after the start


class Process(Protocol):
    """A child of the lab; `subprocess.Popen` is one."""

    pid: int

    @property
    def returncode(self) -> int | None:
        """As subprocess has it: negative for a signal; None before it was seen to have ended."""

    def poll(self) -> int | None:
        """The same, after a look."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; subprocess.TimeoutExpired."""

    def send_signal(self, sig: int, /) -> None:
        """Signal it, unless it has ended."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""


class Forked:
    """A child of this process that somebody else forked. Safe to use from several threads."""

    def __init__(self, pid: int, argv: Sequence[str]) -> None:
        self.pid, self.args = pid, list(argv)
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        with self._lock:
            if self.returncode is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # where SIGCHLD is ignored nobody can tell; subprocess takes it so too
                    pid, status = self.pid, 0
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; subprocess.TimeoutExpired after `timeout` seconds."""
        if (status := self.poll()) is not None:
            return status
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                poller = select.poll()
                poller.register(descriptor, select.POLLIN)
                poller.poll(None if timeout is None else timeout * 1000)
            finally:
                os.close(descriptor)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def send_signal(self, sig: int, /) -> None:
        """Signal it, unless it has ended."""
        self.poll()
        with self._lock:  # nobody else may learn meanwhile that it has ended: its number would be free
            if self.returncode is None:
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """A process that starts `python -m MODULE …` by a fork, for modules given as name → word for its `prepare`.

    One that is killed takes nothing with it: what it started are children of this process.
    """

    def __init__(self, modules: Mapping[str, str], environment: Mapping[str, str], umask: int) -> None:
        self._modules = modules
        self._gone = False
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_ANSWER_TIMEOUT)
        argv = [sys.executable, "-m", _MODULE, "--socket", str(theirs.fileno()), "--room", "." * forkserver.ROOM]
        with theirs:
            self._process = subprocess.Popen(
                [*argv, *(f"{name}={word}" for name, word in modules.items())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
                umask=umask,
                pass_fds=[theirs.fileno()],
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def serves(self, argv: Sequence[str]) -> bool:
        """Whether a command line is of a module that it has."""
        words = list(argv[:3])
        return not self._gone and any(words == [sys.executable, "-m", module] for module in self._modules)

    def start(self, name: str, argv: Sequence[str], node: int | None, output: IO[bytes]) -> Forked | None:
        """Start what it `serves` as `name`, in the namespaces of the process `node`; None where it cannot, or is gone.

        `output` becomes its standard output and error.
        """
        request = json.dumps({"name": name, "argv": list(argv), "node": node}).encode()
        with self._lock:
            try:
                socket.send_fds(self._socket, [request], [output.fileno()])
                told = json.loads(self._socket.recv(forkserver.MAX_REQUEST) or "{}")
            except OSError:
                told = {}
        if "pid" in told:
            return Forked(int(told["pid"]), argv)
        self._gone = True
        self._process.kill()
        return None

    def close(self) -> None:
        """End it. What it started goes on."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
