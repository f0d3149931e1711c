"""Handles that a `Lab` gives out: a cable or switch to fail, a traffic that runs, the outcome of one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mrclab.lab.errors import RunError
from mrclab.lab.traffic.running.flows import Running

if TYPE_CHECKING:
    from mrclab.lab.session.lab import Lab

TIMEOUT = 60.0  # seconds that a transfer may take by default


@dataclass(frozen=True)
class Transferred:
    """Outcome of a traffic. `seconds` from its first post to its last completion, `error` empty where all went well."""

    intact: bool
    bytes: int
    seconds: float
    error: str = ""
    iterations: tuple[float, ...] = ()  # seconds of each round of a collective

    @property
    def rate(self) -> float:
        """Payload bytes per second."""
        return self.bytes / self.seconds if self.seconds else 0.0


class StartedTraffic:
    """A traffic that runs; `wait` for its end."""

    def __init__(self, lab: Lab, running: Running) -> None:
        self._lab = lab
        self._running = running

    @property
    def share(self) -> float:
        """Share that is done, from 0 to 1."""
        self._lab.step(self._lab.now)
        return self._running.share(self._lab.now)

    def reach(self, share: float, timeout: float = TIMEOUT) -> None:
        """Wait until so much of it is done; RunError where that takes longer."""
        deadline = self._lab.now + timeout
        while self._running.ended is None and self._running.share(self._lab.now) < share:
            if self._lab.now > deadline:
                done = self._running.share(deadline)
                raise RunError(f"{self._running.name} is at {done * 100:.0f}% after {timeout:g} s")
            self._lab.go_on(deadline)

    def wait(self, timeout: float = TIMEOUT) -> Transferred:
        """Wait for its end; RunError where that takes longer."""
        self.reach(1.0, timeout)
        return self._outcome()

    def stop(self) -> Transferred:
        """End it now, complete or not."""
        self._lab.step(self._lab.now)
        if self._running.ended is None:
            self._lab.finish(self._running)
        return self._outcome()

    def _outcome(self) -> Transferred:
        end = self._running.outcome
        seconds = (self._running.ended or 0.0) - (self._running.began or 0.0)
        error, rounds = str(end.get("error", "")), tuple(end["iterations"])
        return Transferred(self._running.intact, int(end["bytes"]), seconds, error, rounds)


class LabLink:
    """One cable; every method is a fault that lasts as long as its block."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self._lab = lab

    def down(self) -> AbstractContextManager[None]:
        """No carrier at both ends."""
        return self.fault("link_down")

    def loss(self, rate: str, **fields: Any) -> AbstractContextManager[None]:
        """Lose a share of the packets, e.g. `loss("1%", direction="up")`."""
        return self.fault("loss", rate=rate, **fields)

    def silent_drop(self, **fields: Any) -> AbstractContextManager[None]:
        """Lose everything, with carrier up."""
        return self.fault("silent_drop", **fields)

    def corrupt(self, rate: str, **fields: Any) -> AbstractContextManager[None]:
        """Change a byte of a share of the packets."""
        return self.fault("corrupt", rate=rate, **fields)

    def delay(self, delay: str, **fields: Any) -> AbstractContextManager[None]:
        """Delay every packet."""
        return self.fault("delay", delay=delay, **fields)

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """Any other kind of fault of a cable."""
        return self._lab.fault(kind, link=self.name, **fields)


class LabSwitch:
    """One switch; every method is a fault that lasts as long as its block."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self._lab = lab

    def crash(self) -> AbstractContextManager[None]:
        """Its process is killed, and started again after the block."""
        return self.fault("switch_crash")

    def freeze(self) -> AbstractContextManager[None]:
        """It is up and forwards nothing."""
        return self.fault("switch_freeze")

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """Any other kind of fault of a switch."""
        return self._lab.fault(kind, switch=self.name, **fields)
