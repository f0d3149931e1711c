"""Mininet's shells, which hold the nodes' namespaces; detects one that exits or does not respond.

Mininet reads a shell's terminal until its prompt comes, and holds the other end of that terminal open itself. So where
mnexec or the shell ends (in a chroot, say, where mnexec cannot mount), it would read for ever.
"""

import select
from collections.abc import Mapping
from typing import Any

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout, Pace

START_TIMEOUT = 20.0  # seconds for a shell's first prompt; it takes some hundredths
_LOOK_AGAIN = 0.1  # seconds between two checks that the shell still runs


class _WatchedPoll:
    """A node's `pollOut` that gives up where `shell` has ended, or where `adaptive` has."""

    def __init__(self, name: str, shell: Any, terminal: int, adaptive: AdaptiveTimeout) -> None:
        self._name, self._shell = name, shell
        self.adaptive: AdaptiveTimeout | None = adaptive
        self._output = ""
        self._poll = select.poll()
        self._poll.register(terminal, select.POLLIN)

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """As select.poll: `timeout` in milliseconds, None for no limit."""
        if timeout is not None:
            return self._poll.poll(timeout)
        while not (ready := self._poll.poll(_LOOK_AGAIN * 1000)):
            status = self._shell.poll()
            if status is not None and not self._poll.poll(0):
                output = " ".join(self._output.split()) or "it wrote nothing"
                raise EmulationError(
                    f"the shell of {self._name} ended (status {status}): {output}; see `mrclab doctor`"
                )
            if self.adaptive is not None and self.adaptive.over:
                raise self.adaptive.error(f"the shell of {self._name}", "give its first prompt")
        return ready

    def subscribe(self, text: str) -> None:
        """Keep the last output, for a message."""
        self._output = (self._output + text)[-200:]


class WatchedShell:
    """For a Mininet node: gives its shell the run's environment and never waits for one that is not there."""

    name: str
    shell: Any
    stdout: Any
    readbuf: str
    pollOut: Any  # noqa: N815 - Mininet's name
    environment: Mapping[str, str]
    pace: Pace

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the shell; EmulationError where it ends or gives no prompt."""
        self._watched: _WatchedPoll | None = None
        try:
            super().startShell(mnopts)  # type: ignore[misc]
        except EmulationError:
            self.shell.kill()
            self.shell.wait()
            raise
        assert self._watched is not None
        self._watched.adaptive = None  # commands may take as long as they like

    def read(self, size: int = 1024) -> str:
        """Return the terminal's output, `size` characters at most; Mininet's first call comes before it has waited."""
        if self._watched is None:
            adaptive = AdaptiveTimeout(START_TIMEOUT, self.pace, self.shell.pid)
            self._watched = self.pollOut = _WatchedPoll(self.name, self.shell, self.stdout.fileno(), adaptive)
        if not self.readbuf:
            self._watched.poll()
        text = str(super().read(size))  # type: ignore[misc]
        self._watched.subscribe(text)
        return text

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        params.setdefault("env", dict(self.environment))
        return super()._popen(cmd, **params)  # type: ignore[misc]
