"""World of runs in virtual time: one process, no root, the same history bit for bit at every run.

`mrclab.sim` simulates; this module adds subscriptions to events, the lab's error messages, and Ctrl-C, which takes
effect between two events, never within one.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import Unpack

from mrclab.events.run import WorldBegin
from mrclab.lab import history
from mrclab.lab.errors import Interrupted, RunError, Unreachable
from mrclab.lab.faults.action import FaultInjector
from mrclab.lab.kinds import WorldName
from mrclab.lab.run.interrupts import Interrupts, guarded
from mrclab.lab.run.world import GONE, KINDS, Event, WorldOptions
from mrclab.rpc.errors import RpcError, RpcUnavailable
from mrclab.sim.links.crossings import Crossings
from mrclab.sim.world import SimWorld
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.linux.paths import folder_prefix
from mrclab.topo.model import Fabric, Link

if TYPE_CHECKING:
    from mrclab.lab.capture.virtual import VirtualTaps

NAME: Final = "sim"

_MOMENT = 1e-9  # seconds that a waiting caller advances time at least
_SLICES = 2  # checks for an interrupt per sampling interval of a host


class Follower(Protocol):
    """Reader of a world's history as time passes."""

    def write_now_and_then(self) -> None:
        """Read new records, unless that was done a moment ago."""

    def close(self) -> None:
        """Read the remaining records; the world has ended."""


class VirtualWorld:
    """A `mrclab.lab.run.world.World` in virtual time, which begins at 0. Made by `virtual_world`."""

    name: WorldName = NAME
    greeting = "virtual time begins"

    def __init__(
        self,
        fabric: Fabric,
        files: Path,
        interrupts: Interrupts,
        **options: Unpack[WorldOptions],
    ) -> None:
        self._keeps_history = options.get("keeps_history", True)
        self.fabric = fabric
        self.seed = options.get("seed", 1)
        self.files = files
        self.hosts = frozenset(host.name for host in fabric.hosts)
        self._interrupts = interrupts
        self.interrupted = False  # set by a signal that was reported
        self._slice = fabric.spec.sample_interval / _SLICES
        self._digest = ""
        self._stopped = False
        self._event_queues: list[_EventQueue] = []
        self._follower: Follower | None = None
        mapper = options.get("mapper")
        self._sim = SimWorld(
            fabric,
            seed=self.seed,
            transport=options.get("transport") or TransportSpec(),
            mapper=mapper.model_dump() if mapper is not None else None,
            files=files,
            of_hosts=options.get("of_hosts"),
            history=self._keeps_history,
        )
        sim = self._sim
        self.record, self.history_since, self.hand_over = sim.record, sim.history_since, sim.hand_over
        self.last_output = sim.last_output
        self.stuck, self.deadlocked, self.open_loop = sim.stuck, sim.deadlocked, sim.open_loop
        sim.check_interrupt = self._check_interrupt
        interrupts.on_deferred = self._sim.halt
        self.injector: FaultInjector = sim
        self.record(WorldBegin(world=NAME), 0.0)

    @property
    def now(self) -> float:
        """Seconds since virtual time began."""
        return self._sim.now

    def pause(self, seconds: float) -> None:
        """Let virtual time pass; events are queued for subscribers."""
        until = self.now + seconds
        while self.now < until:
            self.advance(until)

    def advance(self, until: float) -> None:
        """Let virtual time pass until an event occurs, at most until `until`, and for one slice only."""
        self._check_interrupt()
        least = self.now + _MOMENT  # events that a rounding error left behind are due then
        self._pass_on(self._sim.run(max(least, min(until, self.now + self._slice))))
        if self._follower is not None:
            self._follower.write_now_and_then()

    def publish(self) -> None:
        """Queue all events that hosts have published, without letting time pass."""
        self._pass_on(self._sim.published())

    def _pass_on(self, events: Iterable[Event]) -> None:
        for host, event in events:
            for queue in self._event_queues:
                queue.take(host, event)

    def _check_interrupt(self) -> None:
        """Report an interrupt, once."""
        if self._interrupts.seen and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt

    def follow(self, follower: Follower) -> None:
        """Attach a follower to the history until the world has ended; one at a time."""
        self._follower = follower

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a host or the `controller`; RunError names the node that refused and why."""
        self._check_interrupt()
        try:
            answer: dict[str, Any] | None = self._sim.call(node, op, **arguments)
        except RpcUnavailable as error:
            raise Unreachable(error.message) from None
        except RpcError as error:
            raise RunError(f"{node} could not {op}: {error.message}") from None
        return answer or {}

    def tap(self, links: Sequence[Link], **options: Any) -> "VirtualTaps":
        """Capture frames at both ends of some cables from now on; options are those of `VirtualTaps`."""
        from mrclab.lab.capture.virtual import VirtualTaps  # noqa: PLC0415 - few runs are captured

        return VirtualTaps(self._sim.sim, links, **options)

    def watch(self) -> Crossings:
        """Watch every frame that crosses a cable from now on, until the watch is closed."""
        return Crossings(self._sim.sim, range(len(self.fabric.links)))

    def lead(self, hosts: int) -> float:
        """Return 0: all hosts are notified at the same time."""
        return 0.0

    def subscribe(self, nodes: Iterable[str], kinds: Collection[str] = KINDS) -> "_EventQueue":
        """Subscribe to the events of some nodes."""
        made = _EventQueue(self, nodes, kinds)
        self._event_queues.append(made)
        return made

    def unsubscribe(self, queue: "_EventQueue") -> None:
        """Remove a subscription."""
        self._event_queues = [other for other in self._event_queues if other is not queue]

    def on_notice(self, notify: Callable[[str], None]) -> None:
        """Do nothing: a world of one process has no process that could be stopped."""

    def depths(self) -> dict[str, dict[str, int]]:
        """Return the packets in data queues now."""
        return self._sim.depths()[0]

    def stop(self) -> None:
        """Stop the world: no further events. From now on signals wait, so that the collected files are complete."""
        self._interrupts.shield()
        self._stopped = True
        self._sim.stop()
        self.end_following()

    def end_following(self) -> None:
        """Close the follower, which has the whole history then."""
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    def realtime(self) -> AbstractContextManager[None]:
        """Return an empty context: virtual time needs no time-outs."""
        return nullcontext()

    def facts(self) -> dict[str, Any]:
        """Return the world's facts for a report."""
        facts = {"world": NAME, "target": "virtual time", "real_time": True, "bring_up_seconds": 0.0}
        if not self._keeps_history:
            return {**facts, "history": "none"}
        return {**facts, "history_sha256": self._digest} if self._digest else facts

    def collect(self, directory: Path) -> None:
        """Write inputs and history so far; of a world that was stopped `facts` then has the history's digest."""
        self._sim.collect(directory)
        if self._keeps_history and self._stopped:
            self._digest = history.digest(directory / "history.jsonl")


class _EventQueue:
    """Subscription to the events of some nodes; a `mrclab.lab.run.world.EventQueue`."""

    def __init__(self, world: VirtualWorld, nodes: Iterable[str], kinds: Collection[str]) -> None:
        self._world = world
        self._kinds = {*kinds, GONE}
        self._queue: deque[Event] = deque()
        self._joined: set[str] = set()
        for node in nodes:
            self.join(node)

    def join(self, host: str) -> None:
        """Subscribe to a node; RunError where it does not answer."""
        self._world.call(host, "hello" if host in self._world.hosts else "status")
        self._joined.add(host)

    def is_subscribed(self, host: str) -> bool:
        """Return True if a host's events are subscribed to."""
        return host in self._joined

    def take(self, host: str, event: Mapping[str, Any]) -> None:
        """Queue an event."""
        if host in self._joined and event["kind"] in self._kinds:
            self._queue.append((host, event))
            if event["kind"] == GONE:
                self._joined.discard(host)

    def wait(self, until: float) -> list[Event]:
        """Return all queued events; where there are none, let virtual time pass."""
        if not self._queue:
            self._world.advance(until)
        while not self._queue and self._world.now < until:
            self._world.advance(until)
        return self._all_queued()

    def taken(self) -> list[Event]:
        """Return all events until now."""
        self._world.publish()
        return self._all_queued()

    def _all_queued(self) -> list[Event]:
        found = list(self._queue)
        self._queue.clear()
        return found

    def close(self) -> None:
        """Unsubscribe from all nodes."""
        self._world.unsubscribe(self)


@contextmanager
def virtual_world(fabric: Fabric, **options: Unpack[WorldOptions]) -> Iterator[VirtualWorld]:
    """Context manager: a lab in virtual time; its files are removed at the end."""
    with guarded() as interrupts, tempfile.TemporaryDirectory(prefix=folder_prefix()) as folder:
        interrupts.defer()
        world = VirtualWorld(fabric, Path(folder), interrupts, **options)
        try:
            yield world
            if interrupts.seen and not world.interrupted:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        finally:
            world.end_following()
