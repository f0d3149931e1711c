"""A helper process of the lab: prints `ready`, works until SIGTERM, and prints its counts as JSON."""

import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

from mrclab.topo import realtime
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.processes import ending, last_line

START_TIMEOUT = 20.0  # seconds for a helper to load its program; it takes some tenths
END_TIMEOUT = 10.0  # seconds for its last output
_LOOK_AGAIN = 0.1  # seconds
_READY = b"ready\n"


class Helper:
    """A helper that runs, until `finish`. Made by `start`."""

    def __init__(self, lab: Emulation, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name = name  # of its process in the lab
        self._lab, self._process = lab, process

    @classmethod
    def start(
        cls, lab: Emulation, node: str | None, module: str, argument: object, name: str, namespace: int | None = None
    ) -> "Helper":
        """Run `module` in a node's namespaces (or in `namespace`), with `argument` as its argument; returns when it is
        ready. EmulationError where it ends, or is stopped.
        """
        argv = [sys.executable, "-m", module, json.dumps(argument)]
        with (lab.run_dir / "log" / f"{name}.log").open("ab") as log:
            process = lab.popen(node, argv, log=name, namespace=namespace, stdout=subprocess.PIPE, stderr=log)
        helper = cls(lab, name, process)
        if helper._output(START_TIMEOUT, "get ready", upto=_READY) != _READY:
            process.kill()
            process.wait()
            raise EmulationError(f"{name} did not start; {helper._last_output}")
        realtime.to_real_time(process.pid)
        return helper

    @property
    def alive(self) -> bool:
        """True if it still runs."""
        return self._process.poll() is None

    @property
    def finished(self) -> bool:
        """True if `finish` was called."""
        return self._process.stdout is None or self._process.stdout.closed

    def finish(self) -> Any:
        """End it; return its counts, None if it was ended already."""
        if self.finished:
            return None
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a stopped process would not receive SIGTERM
        output = self._output(END_TIMEOUT, "end")
        assert self._process.stdout is not None
        self._process.stdout.close()
        if status := self._process.wait():
            raise EmulationError(f"{self.name} {ending(status)}; {self._last_output}")
        return json.loads(output)

    @property
    def _last_output(self) -> str:
        """Last output of the process, for the message: its log may be removed."""
        last = last_line(self._lab.run_dir / "log" / f"{self.name}.log")
        return f"its last output was: {last} (its log is log/{self.name}.log)"

    def _output(self, seconds: float, what: str, upto: bytes = b"") -> bytes:
        """Return its output up to `upto`, or until it closes its output; one that hangs is killed."""
        assert self._process.stdout is not None
        terminal, output = self._process.stdout.fileno(), b""
        adaptive = AdaptiveTimeout(seconds, self._lab.slowness, self._process.pid)
        poll = select.poll()
        poll.register(terminal, select.POLLIN)
        while not (upto and output.endswith(upto)):
            if poll.poll(_LOOK_AGAIN * 1000):
                data = os.read(terminal, 65536)
                if not data:
                    break
                output += data
            elif adaptive.over:
                self._process.kill()
                self._process.wait()
                self._process.stdout.close()
                raise adaptive.error(self.name, f"{what}; {self._last_output}")
        return output
