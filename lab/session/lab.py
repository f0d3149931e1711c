"""A running lab: traffic, faults, events, and time.

Runs of scenarios, the prompt, tests, surveys and the Python API all drive a `Lab`; they differ in the traffic and
faults that they begin, and when. Its one loop clears and injects what is due, lets time pass until an event comes,
hands the event to its workload, and ends workloads that are over. The Python API shows it as `mrclab.Lab`:

    with lab.link("t0-p1-1", "t1-p1-2").down():
        assert lab.transfer("h1", "h3", "1 MiB").intact
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from typing_extensions import Self, override

from mrclab.events.run import LabLate
from mrclab.lab.errors import LabError, RunError, Unreachable, plain
from mrclab.lab.faults.base import FAULTS, FaultBase, unsupported_text
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.kinds import Kinds
from mrclab.lab.run.world import GONE, KINDS, PROGRESS_KINDS, EventQueue, Progress, World
from mrclab.lab.run.worlds import world_up
from mrclab.lab.scenario.scenario import LabSetting
from mrclab.lab.scenario.units import write_seconds
from mrclab.lab.traffic.base import TRAFFIC, TrafficBase
from mrclab.lab.traffic.running.flows import Running
from mrclab.topo.errors import TopoError
from mrclab.topo.input.quantities import parse_duration
from mrclab.topo.input.sentences import nearest
from mrclab.topo.model import Fabric
from mrclab.topo.spec import explain

_LATE = 0.01  # seconds: the history records when time advanced further than requested
_POLL_S = 0.1  # seconds between two polls of what has no event, at most
TIMEOUT = 60.0  # seconds that a transfer may take by default


def _seconds(duration: float | str) -> float:
    """Return a duration in seconds; ValueError for an invalid one."""
    seconds = parse_duration(duration)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        raise ValueError(f"{duration!r} is not a duration; write seconds, or, for example, 2ms, 500us or 1.5s")
    return seconds


class Transferred(NamedTuple):
    """Outcome of a workload. `seconds`: first post to last completion; `error`: empty if all went well."""

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
    """A workload that runs; `wait` for its end."""

    def __init__(self, lab: Lab, running: Running) -> None:
        self._lab = lab
        self._running = running

    @property
    def share(self) -> float:
        """Share that is done, from 0 to 1."""
        self._lab.step(self._lab.now)
        return self._running.share(self._lab.now)

    def reach(self, share: float, timeout: float | str = TIMEOUT) -> None:
        """Wait until so much of it is done, from 0 to 1; RunError where that takes longer."""
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
            raise ValueError(f"{share!r} is not a share; write a number from 0 to 1, such as 0.25")
        timeout = _seconds(timeout)
        deadline = self._lab.now + timeout
        while self._running.ended is None and self._running.share(self._lab.now) < share:
            if self._lab.now > deadline:
                done = self._running.share(deadline)
                raise RunError(f"{self._running.name} is at {done * 100:.0f}% after {write_seconds(timeout)}")
            self._lab.go_on(deadline)

    def wait(self, timeout: float | str = TIMEOUT) -> Transferred:
        """Wait for its end; RunError where that takes longer."""
        self.reach(1.0, timeout)
        return self._outcome()

    def stop(self) -> Transferred:
        """End it now, complete or not; its QPs are destroyed, and nothing more is sent."""
        self._lab.step(self._lab.now)
        if self._running.ended is None:
            self._lab.cut_short(self._running)
        return self._outcome()

    def _outcome(self) -> Transferred:
        end = self._running.outcome
        seconds = (self._running.ended or 0.0) - (self._running.began or 0.0)
        error, rounds = str(end.get("error", "")), tuple(end["iterations"])
        return Transferred(self._running.intact, int(end["bytes"]), seconds, error, rounds)


class _FaultBlock(AbstractContextManager[None]):
    """A fault in force inside a `with` block; RuntimeWarning where it never gets one, as it then does nothing."""

    def __init__(self, lab: Lab, fault: FaultBase) -> None:
        self._lab = lab
        self._fault = fault
        self._entered = False

    @override
    def __enter__(self) -> None:
        self._entered = True
        self._lab.inject(self._fault)

    @override
    def __exit__(self, *_: object) -> None:
        if self._lab.in_force(self._fault):
            self._lab.time_line.clear(self._fault.name)

    def __del__(self) -> None:
        if not self._entered:
            kind = self._fault.kind_name
            text = f"fault {kind} was never in force; it lasts as long as its block: `with lab.fault(…):`"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


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
        """Kill the switch's process; it is started again after the block."""
        return self.fault("switch_crash")

    def freeze(self) -> AbstractContextManager[None]:
        """Stop the switch's process: ports keep carrier, nothing is forwarded."""
        return self.fault("switch_freeze")

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """Any other kind of fault of a switch."""
        return self._lab.fault(kind, switch=self.name, **fields)


class Lab:
    """A lab that is up, with its faults and traffic.

    `faults` begin and end at their triggers; their second 0 is `began`. `kinds` are the events of hosts that are taken
    in. Where `may_end` names the hosts that may end, the end of another one is an error (RunError).
    """

    def __init__(
        self,
        world: World,
        qps: int = 1,
        *,
        faults: Sequence[FaultBase] = (),
        kinds: Collection[str] = (*KINDS, *PROGRESS_KINDS),
        may_end: Collection[str] | None = None,
    ) -> None:
        self._world = world
        self._is_down = False
        self.thread = 0  # whose calls alone let time pass; 0: any, if only one at a time
        self.fabric = world.fabric
        self.workloads: dict[str, Running] = {}  # all since the lab is up, by name
        self.time_line = TimeLine(world, faults)
        self.began = world.now
        self.received_events = False  # True if an event arrived in the last step
        self._qps = qps
        self._may_end = may_end
        self._events = world.subscribe((), kinds)
        self._injected: dict[str, FaultBase] = {}
        self._with_qps: list[Running] = []  # traffic that was prepared and whose QPs are not destroyed yet
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all traffic, clear all faults, and unsubscribe from the hosts; afterwards nothing can begin."""
        with contextlib.ExitStack() as ends:  # the last first, and each also where one fails
            ends.callback(setattr, self, "_is_down", True)
            ends.callback(self.time_line.clear_all)
            ends.callback(self.leave)
            for running in reversed(self.active):
                ends.callback(self.finish, running, "the lab was taken down")

    def leave(self) -> None:
        """Unsubscribe from the hosts; everything else continues."""
        self._events.close()

    @property
    def world(self) -> World:
        """The world that it runs in; RunError once the lab was taken down."""
        self._check_up()
        return self._world

    def _check_up(self) -> None:
        if self._is_down:
            raise RunError("this lab is down: its block has ended; bring up another one")

    # --- time -------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Time on the lab's clock, seconds; virtual time begins at 0."""
        return self._world.now

    def advance(self, duration: float | str) -> float:
        """Let time pass, in seconds or as `"10ms"`; returns the time after it. ValueError for an invalid duration."""
        return self.advance_to(self.now + _seconds(duration))

    def advance_to(self, until: float) -> float:
        """Let time pass to a time on the lab's clock; returns the time after it."""
        while self.now < until:
            self.go_on(until)
        self.apply_due()
        return self.now

    def wait_until(self, happened: Callable[[], bool], timeout: float | str = TIMEOUT, what: str = "") -> None:
        """Let time pass until something happened; RunError where it takes longer."""
        timeout = _seconds(timeout)
        deadline = self.now + timeout
        pause = _POLL_S * self.fabric.spec.time_scale
        while not happened():
            if self.now > deadline:
                raise RunError(f"{what or 'what the test waits for'} did not happen within {write_seconds(timeout)}")
            self.go_on(self.now + pause)
            pause = min(2 * pause, _POLL_S)

    def go_on(self, until: float) -> None:
        """Apply due changes, then let time pass until an event comes or another change is due, at most until a time."""
        self.apply_due()
        self.step(min(until, self.now + _POLL_S, max(self.time_line.next_due(), self.now)))

    def apply_due(self) -> list[str]:
        """Inject and clear the faults that are due; return a phrase for each."""
        return self.time_line.advance(self.now - self.began, self.shares(), self.moments())

    def step(self, until: float) -> list[Running]:
        """Let time pass until an event comes, at most until a time; take in all that came.

        Returns the workloads that this ended. RunError where a host ended that may not, and in another thread.
        """
        if self.thread and threading.get_ident() != self.thread:
            raise RunError("a lab's time passes in the thread that brought it up, and this is another; wait there")
        world = self.world
        events = self._events.wait(until)
        self.received_events = bool(events)
        if (late := self.now - until) > _LATE:
            world.record(LabLate(late=round(late, 6)))
        for host, event in events:
            self._take(host, event)
        over = [running for running in self.active if running.over]
        for running in over:
            self.finish(running)
        return over

    def _take(self, host: str, event: Mapping[str, Any]) -> None:
        if event["kind"] == GONE and self._may_end is not None and host not in self._may_end:
            raise RunError(f"the agent of {host} ended: {self.world.last_output(host)}")
        for running in self.workloads.values():
            if running.ended is None:
                running.dispatch(host, event)

    def shares(self) -> dict[str, float]:
        """Return the share of each workload that is done, 0 to 1."""
        now = self.now
        return {name: running.share(now) for name, running in self.workloads.items()}

    def moments(self) -> dict[str, float]:
        """Return the seconds at which workloads began and ended (NAME, NAME.end), and faults began and were cleared."""
        times = dict(self.time_line.times)
        for name, running in self.workloads.items():
            if running.began is not None:
                times[name] = running.began
            if running.ended is not None:
                times[f"{name}.end"] = running.ended
        return {name: at - self.began for name, at in times.items()}

    # --- faults -----------------------------------------------------------------------------------------------------

    def link(self, *ends: str) -> LabLink:
        """A cable by its name, by its two ends in either order, by one port, or by a host and a plane."""
        return LabLink(self, self.fabric.link(" ".join(map(str, ends))).name)

    def switch(self, name: str) -> LabSwitch:
        """A switch by name."""
        return LabSwitch(self, self.fabric.switch(str(name)).name)

    def nic_down(self, host: str) -> AbstractContextManager[None]:
        """All NIC ports of a host lose carrier."""
        return self.fault("nic_down", host=host)

    def plane_down(self, plane: int) -> AbstractContextManager[None]:
        """Cut all cables of a plane."""
        return self.fault("plane_down", plane=plane)

    def fault(self, kind: str, **fields: Any) -> AbstractContextManager[None]:
        """Any fault of a scenario, with its fields, in force inside the block. ValueError names a field at fault."""
        return _FaultBlock(self, self.fault_of(kind, fields))

    def fault_of(self, kind: str, fields: Mapping[str, Any]) -> FaultBase:
        """Return a fault given by kind and fields; ValueError for invalid ones."""
        _refuse(fields, ("at", "until"), kind, "a fault begins at once and lasts until it is cleared")
        self._count += 1
        fault = entry_of(FAULTS, kind, {"name": f"fault-{self._count}", "at": 0, **fields}, self.fabric)
        if self.world.name not in fault.worlds:
            raise ValueError(unsupported_text(fault, self.world.name))
        return fault

    def in_force(self, fault: FaultBase) -> bool:
        """Return True if a fault of this one's name is in force."""
        return any(other.name == fault.name for other in self.time_line.active)

    def inject(self, fault: FaultBase) -> str:
        """Inject a fault now; returns a phrase. It lasts until its own end, or until `time_line` clears it.

        ValueError where one of its name is in force already. One that fails is not in force, unless it cannot be
        cleared either.
        """
        self._check_up()
        if self.in_force(fault):
            raise ValueError(f"{fault.name} is in force already; clear it, or give another name=")
        try:
            phrase = self.time_line.inject(fault)
        except BaseException:
            if self.in_force(fault):  # with a part of it
                with contextlib.suppress(LabError, TopoError, OSError):  # `close` tries again
                    self.time_line.clear(fault.name)
            raise
        self._injected[fault.name] = fault
        return phrase

    @property
    def injected(self) -> list[tuple[FaultBase, float, float | None]]:
        """Every fault that `inject` began: when, and when it was cleared; of several of one name the last."""
        found: list[tuple[FaultBase, float, float | None]] = []
        for name, fault in self._injected.items():
            begin, end = self.time_line.times[name], self.time_line.times.get(f"{name}.end")
            found.append((fault, begin, end if end is not None and end >= begin else None))
        return found

    # --- traffic ----------------------------------------------------------------------------------------------------

    def transfer(
        self, source: str, destination: str, size: str | int, timeout: float | str = TIMEOUT, **fields: Any
    ) -> Transferred:
        """Write random bytes from host to host, and compare them."""
        return self.run("write", timeout, size=size, **{"from": source, "to": destination}, **fields)

    def run(self, kind: str, timeout: float | str = TIMEOUT, **fields: Any) -> Transferred:
        """Any traffic of a scenario, with its fields, to its end; `from` is written `**{"from": "h1"}`."""
        return self.start(kind, **fields).wait(timeout)

    def start(self, kind: str, **fields: Any) -> StartedTraffic:
        """Any traffic of a scenario, started; ValueError names a field at fault."""
        return StartedTraffic(self, self.start_traffic({**fields, "kind": kind}, str(kind).replace("_", "-")))

    def start_traffic(self, fields: Mapping[str, Any], stem: str = "flow") -> Running:
        """Start a workload given as in a scenario, named STEM-1 and so on where it has no name. ValueError as `start`.

        Destroys the QPs of finished traffic on its hosts: until then their EVs can be shown.
        """
        kind = str(fields.get("kind", ""))
        _refuse(fields, ("start",), kind, "traffic begins at once")
        _refuse(fields, ("transport",), kind, "all traffic has the transport of the lab")
        name = str(fields.get("name") or self.free_name(stem))
        if name in self.workloads and self.workloads[name].ended is None:
            raise ValueError(f"{name} runs already; give another name=")
        model = entry_of(TRAFFIC, kind, {**fields, "name": name}, self.fabric)
        self._release(model)
        running = model.running(self.world, model.qps or self._qps, self.world.seed)
        self.prepare(running)
        self.start_now(running)
        return running

    def free_name(self, stem: str) -> str:
        """Return the first of STEM-1, STEM-2 … that no traffic has."""
        return next(name for n in itertools.count(1) if (name := f"{stem}-{n}") not in self.workloads)

    def _release(self, model: TrafficBase) -> None:
        hosts = set(model.hosts_in(self.fabric, self.world.seed))
        for running in list(self._with_qps):
            if running.ended is not None and hosts & set(running.hosts):
                self._destroy_qps(running)

    def _destroy_qps(self, running: Running) -> None:
        if running in self._with_qps:
            for host in running.hosts:
                with contextlib.suppress(Unreachable):  # its QPs ended with its agent
                    self.world.call(host, "release_workload", name=running.name)
            self._with_qps.remove(running)

    def prepare(self, running: Running, *, absent_allowed: bool = False) -> None:
        """Make the QPs and memory of a workload, and subscribe to its hosts; RunError where an agent refuses.

        Where `absent_allowed`, flows of hosts whose agents are down fail, and the others go on.
        """
        absent = set()
        for host in running.hosts:
            try:
                self.subscribe_to([host])
            except Unreachable:
                if not absent_allowed:
                    raise
                absent.add(host)
        if running not in self._with_qps:
            self._with_qps.append(running)
        try:
            running.prepare(absent)
        except RunError:
            self._destroy_qps(running)
            raise
        self.workloads[running.name] = running

    def start_now(self, running: Running) -> None:
        """Have the hosts of a prepared traffic begin; prepares it again where an agent ended since."""
        if not running.ready:
            self.prepare(running, absent_allowed=True)
        running.start(self.now + self.world.lead(len(running.hosts)))

    def stop(self, name: str) -> Running:
        """End a workload before its time. KeyError where none has this name, ValueError where it is over."""
        running = self.workloads[name]
        if running.ended is not None:
            raise ValueError(f"{name} is over already")
        self.cut_short(running, "it was stopped")
        return running

    def cut_short(self, running: Running, error: str = "") -> None:
        """End a workload, before its time where it runs: posted messages are not sent any more; destroys its QPs."""
        if running.ended is None:
            self.finish(running, error)
        self._destroy_qps(running)

    def finish(self, running: Running, error: str = "") -> None:
        """End a workload, with an error where it is ended before its time."""
        try:
            running.finish(error)
        except (RunError, OSError) as failure:  # its outcome could not be written; it is over nevertheless
            running.fail(plain(failure))
            raise

    @property
    def active(self) -> list[Running]:
        """Traffics that run."""
        return [running for running in self.workloads.values() if running.running]

    # --- state ------------------------------------------------------------------------------------------------------

    def subscribe(self, node: str, *kinds: str) -> EventQueue:
        """Events of a host or the `controller`, of these kinds, from now on; close it after use."""
        return self.world.subscribe([node], kinds)

    def subscribe_to(self, hosts: Iterable[str]) -> None:
        """Take in the events of hosts from now on, again where an agent was restarted."""
        for node, event in self._events.taken():  # such as the end of an agent, before what begins now
            self._take(node, event)
        for host in hosts:
            if not self._events.is_subscribed(host):
                self._events.join(host)

    def is_subscribed(self, host: str) -> bool:
        """Return True if events of a host come in: a workload has it, and its agent did not end since."""
        return self._events.is_subscribed(host)

    def paths(self, host: str) -> list[dict[str, Any]]:
        """EVs of a host's QPs: plane, uplink, state, packets sent and lost."""
        name = self.fabric.host(str(host)).name
        rows: list[dict[str, Any]] = self.world.call(name, "stats").get("paths", [])
        return rows

    def qps(self, host: str) -> list[dict[str, Any]]:
        """Counters of a host's QPs."""
        rows: list[dict[str, Any]] = self.world.call(self.fabric.host(str(host)).name, "stats")["qps"]
        return rows

    def drops(self) -> dict[str, int]:
        """Packets that switches have dropped since they started, by reason."""
        found: dict[str, int] = {}
        for switch in self.world.call("controller", "counters")["switches"].values():
            for reason, count in switch.get("drops", {}).items():
                found[reason] = found.get(reason, 0) + int(count)
        return found


M = TypeVar("M", bound=BaseModel)


def _refuse(fields: Mapping[str, Any], names: Sequence[str], kind: str, instead: str) -> None:
    """Raise ValueError for a field that only a scenario has."""
    if found := next((name for name in names if name in fields), None):
        raise ValueError(f"{kind}.{found}: only a scenario has this field; here {instead}")


def entry_of(kinds: Kinds[M], kind: str, fields: Mapping[str, Any], fabric: Fabric) -> M:
    """Return the model of this kind with these fields; ValueError with one sentence per mistake."""
    if kind not in kinds:
        raise ValueError(f"no kind of {kinds.family} is called {kind!r}; {nearest(str(kind), list(kinds.names))}")
    try:
        return kinds[kind].model_validate({**fields, "kind": kind}, context={"fabric": fabric})
    except ValidationError as error:
        raise ValueError("; ".join(explain(error, kinds[kind], kind))) from None


@contextmanager
def lab_up(setting: LabSetting, fabric: Fabric, progress: Progress, target: str | None, run_dir: Path) -> Iterator[Lab]:
    """Context manager: the lab of `setting` with `fabric`, ready for traffic and faults."""
    with (
        world_up(
            setting.world,
            fabric,
            progress,
            target=target,
            seed=setting.seed,
            run_dir=run_dir,
            mapper=setting.mapper,
            transport=setting.transport,
            repeatable=setting.repeatable,
        ) as world,
        Lab(world, setting.transport.qps) as lab,
    ):
        lab.thread = threading.get_ident()
        yield lab
