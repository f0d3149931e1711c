"""A lab inside a Python test: faults as scoped blocks, transfers and patterns as calls, state to look at.

with lab.link("t0-p1-1", "t1-p1-2").down():
    assert lab.transfer("h1", "h3", "1 MiB").intact
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mrclab.lab.errors import RunError
from mrclab.lab.faults.models import Fault
from mrclab.lab.faults.timeline import scoped
from mrclab.lab.run.world import World
from mrclab.lab.scenario import yamlfile
from mrclab.lab.scenario.base import Strict
from mrclab.lab.traffic.models import Traffic
from mrclab.lab.traffic.running.flows import Running
from mrclab.lab.traffic.running.started import StartedTraffic
from mrclab.topo.spec import parse_duration

TIMEOUT = 60.0  # seconds that a transfer may take where the test does not say
_REST = 0.1  # seconds between two looks at what a test waits for, where no event tells


class _OneFault(Strict):
    fault: Fault


class _OneTraffic(Strict):
    traffic: Traffic


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


class Flowing:
    """A traffic that runs; `wait` for its end."""

    def __init__(self, session: World, running: Running) -> None:
        self._world = session
        self._running = running
        self._started = StartedTraffic(session, running)

    @property
    def share(self) -> float:
        """Share that is done, from 0 to 1."""
        self._started.listen(self._world.now)
        return self._running.share(self._world.now)

    def reach(self, share: float, timeout: float = TIMEOUT) -> None:
        """Wait until so much of it is done; RunError where that takes longer."""
        self._until(lambda: self._running.over or self._running.share(self._world.now) >= share, timeout)

    def wait(self, timeout: float = TIMEOUT) -> Transferred:
        """Wait for its end; RunError where that takes longer."""
        if not self._started.ended:
            self._until(lambda: self._running.over, timeout)
        return self._outcome()

    def stop(self) -> Transferred:
        """End it now, whatever is missing."""
        if not self._started.ended:
            self._started.listen(self._world.now)
        return self._outcome()

    def _outcome(self) -> Transferred:
        self._started.finish()
        end = self._running.outcome
        seconds = (self._running.ended or 0.0) - (self._running.began or 0.0)
        error, rounds = str(end.get("error", "")), tuple(end["iterations"])
        return Transferred(self._started.intact, int(end["bytes"]), seconds, error, rounds)

    def _until(self, happened: Callable[[], bool], timeout: float) -> None:
        self._started.reach(happened, timeout, _REST)


class LabLink:
    """One cable; every method is a fault that lasts as long as its block."""

    def __init__(self, lab: "LabFixture", name: str) -> None:
        self.name = name
        self._lab = lab

    def down(self) -> AbstractContextManager[None]:
        """No carrier at both ends."""
        return self._lab.fault("link_down", link=self.name)

    def loss(self, rate: str, **fields: Any) -> AbstractContextManager[None]:
        """Lose a share of the packets, e.g. `loss("1%", direction="up")`."""
        return self._lab.fault("loss", link=self.name, rate=rate, **fields)

    def silent_drop(self, **fields: Any) -> AbstractContextManager[None]:
        """Lose everything, with carrier up."""
        return self._lab.fault("silent_drop", link=self.name, **fields)

    def corrupt(self, rate: str, **fields: Any) -> AbstractContextManager[None]:
        """Change a byte of a share of the packets."""
        return self._lab.fault("corrupt", link=self.name, rate=rate, **fields)

    def delay(self, delay: str, **fields: Any) -> AbstractContextManager[None]:
        """Hold every packet back for so long."""
        return self._lab.fault("delay", link=self.name, delay=delay, **fields)

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """Any other kind of fault of a cable."""
        return self._lab.fault(kind, link=self.name, **fields)


class LabSwitch:
    """One switch; every method is a fault that lasts as long as its block."""

    def __init__(self, lab: "LabFixture", name: str) -> None:
        self.name = name
        self._lab = lab

    def crash(self) -> AbstractContextManager[None]:
        """Its process is killed, and started again after the block."""
        return self._lab.fault("switch_crash", switch=self.name)

    def freeze(self) -> AbstractContextManager[None]:
        """It is up and forwards nothing."""
        return self._lab.fault("switch_freeze", switch=self.name)

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """Any other kind of fault of a switch."""
        return self._lab.fault(kind, switch=self.name, **fields)


class LabFixture:
    """Lab of a test: fabric, faults and traffic."""

    def __init__(self, session: World, qps: int = 1) -> None:
        self.session = session
        self.fabric = session.fabric
        self._qps = qps
        self._count = 0

    # --- time -------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Time on the lab's clock, seconds; virtual time begins at 0."""
        return self.session.now

    def advance(self, duration: float | str) -> float:
        """Let time pass, in seconds or as `"10ms"`; returns the time after it. ValueError for what is no duration."""
        seconds = parse_duration(duration)
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            raise ValueError(f"{duration!r} is no duration; write seconds from 0 on, or for example 2ms, 500us or 1.5s")
        self.session.pause(float(seconds))
        return self.session.now

    # --- faults -----------------------------------------------------------------------------------------------------

    def link(self, *ends: str) -> LabLink:
        """A cable by its name, by its two ends in either order, by one port, or by a host and a plane."""
        return LabLink(self, self.fabric.link(" ".join(ends)).name)

    def switch(self, name: str) -> LabSwitch:
        """A switch by name."""
        return LabSwitch(self, self.fabric.switch(name).name)

    def nic_down(self, host: str) -> AbstractContextManager[None]:
        """All NIC ports of a host lose carrier."""
        return self.fault("nic_down", host=host)

    def plane_down(self, plane: int) -> AbstractContextManager[None]:
        """All of a plane fails."""
        return self.fault("plane_down", plane=plane)

    @contextmanager
    def fault(self, kind: str, **fields: Any) -> Iterator[None]:
        """Any fault of a scenario, with its fields, in force inside the block. ValueError names a field at fault."""
        entry = {"name": self._name("fault"), "kind": kind, "at": "0s", **fields}
        model = _checked(_OneFault, {"fault": entry}, {"fabric": self.fabric})
        with scoped(self.session, model.fault):
            yield

    # --- traffic ----------------------------------------------------------------------------------------------------

    def transfer(
        self, source: str, destination: str, size: str | int, timeout: float = TIMEOUT, **fields: Any
    ) -> Transferred:
        """Write so many random bytes from host to host, and compare them."""
        return self.run("write", timeout, size=size, **{"from": source, "to": destination}, **fields)

    def run(self, kind: str, timeout: float = TIMEOUT, **fields: Any) -> Transferred:
        """Any traffic of a scenario, with its fields, to its end; `from` is written `**{"from": "h1"}`."""
        return self.start(kind, **fields).wait(timeout)

    def start(self, kind: str, **fields: Any) -> Flowing:
        """Any traffic of a scenario, started; ValueError names a field at fault."""
        entry = {"name": self._name(kind.replace("_", "-")), "kind": kind, **fields}
        model = _checked(_OneTraffic, {"traffic": entry}, {"fabric": self.fabric})
        return Flowing(self.session, model.traffic.running(self.session, self._qps, self.session.seed))

    # --- state ------------------------------------------------------------------------------------------------------

    def paths(self, host: str) -> list[dict[str, Any]]:
        """EVs of a host's QPs: plane, uplink, state, packets sent and lost."""
        rows: list[dict[str, Any]] = self.session.call(host, "stats")["paths"]
        return rows

    def qps(self, host: str) -> list[dict[str, Any]]:
        """Counters of a host's QPs."""
        rows: list[dict[str, Any]] = self.session.call(host, "stats")["qps"]
        return rows

    def drops(self) -> dict[str, int]:
        """Packets that switches have dropped since they started, by reason."""
        found: dict[str, int] = {}
        for switch in self.session.call("controller", "counters")["switches"].values():
            for reason, count in switch.get("drops", {}).items():
                found[reason] = found.get(reason, 0) + int(count)
        return found

    def wait_until(self, happened: Callable[[], bool], timeout: float = TIMEOUT) -> None:
        """Wait for something that no call waits for; RunError where it takes longer."""
        deadline = self.session.now + timeout
        while not happened():
            if self.session.now > deadline:
                raise RunError(f"what the test waits for did not happen within {timeout:g} s")
            self.session.pause(_REST)

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"


def _checked(model: type[Any], data: dict[str, Any], context: dict[str, Any]) -> Any:
    """A model of what a test asked for; ValueError says in sentences what is wrong with it."""
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        mistakes = [f"{item['loc'][-1]}: {yamlfile.message(item, model)}" for item in error.errors(include_url=False)]
        raise ValueError("; ".join(mistakes)) from None
