"""Virtual time as a world for runs: one process, no root, the same run again bit for bit.

What happens in it is `mrclab.sim`'s; here are events for who listens, refusals as the lab says them, and Ctrl-C, which
is heard between two events and never within one.
"""

import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from mrclab.events.event import Event as HistoryEvent
from mrclab.events.run import WorldBegin
from mrclab.lab import history
from mrclab.lab.errors import Interrupted, RunError
from mrclab.lab.faults.action import FaultInjector
from mrclab.lab.kinds import WorldName
from mrclab.lab.run.interrupts import Interrupts, guarded
from mrclab.lab.run.place import Mirror
from mrclab.lab.run.world import GONE, KINDS, Event
from mrclab.lab.scenario.mapper import MapperSpec
from mrclab.rpc.errors import RpcError
from mrclab.sim.crossings import Crossings
from mrclab.sim.openloop import OpenFlow, SimOpenLoop
from mrclab.sim.world import SimWorld
from mrclab.topo.economy import CompressedLog
from mrclab.topo.linux.killed import folder_prefix
from mrclab.topo.model import Fabric, Link
from mrclab.topo.transport import TransportSpec

if TYPE_CHECKING:
    from mrclab.lab.capture.virtual import VirtualTaps

NAME: Final = "sim"

_MOMENT = 1e-9  # seconds that pass at least where somebody waits
_SLICES = 2  # looks whether somebody wants to end it, in the time between two samples of a host


class Follower(Protocol):
    """Reads the history of a world as time passes."""

    def write_now_and_then(self) -> None:
        """Take in what is new, unless that was done a moment ago."""

    def close(self) -> None:
        """Take in the rest; the world is over."""


class VirtualWorld:
    """A `mrclab.lab.run.world.World` in virtual time, which begins at 0. Made by `virtual_world`."""

    name: WorldName = NAME
    greeting = "virtual time begins"

    def __init__(
        self,
        fabric: Fabric,
        files: Path,
        interrupts: Interrupts,
        *,
        seed: int = 1,
        mapper: MapperSpec | None = None,
        transport: TransportSpec | None = None,
        of_hosts: Mapping[str, TransportSpec] | None = None,
        keeps_history: bool = True,
    ) -> None:
        self._keeps_history = keeps_history
        self.fabric = fabric
        self.seed = seed
        self.files = files
        self.hosts = frozenset(host.name for host in fabric.hosts)
        self._interrupts = interrupts
        self.interrupted = False  # by a signal that was reported
        self._slice = fabric.spec.sample_interval / _SLICES
        self._digest = ""
        self._event_queues: list[_EventQueue] = []
        self._mirror: Follower | None = None
        options = mapper.model_dump() if mapper is not None else None
        choice = transport or TransportSpec()
        self._sim = SimWorld(
            fabric,
            seed=seed,
            transport=choice,
            mapper=options,
            files=files,
            of_hosts=of_hosts,
            history=keeps_history,
        )
        self._sim.heed = self._heed
        interrupts.noted = self._sim.halt
        self.injector: FaultInjector = self._sim.injector
        self.record(WorldBegin(world=NAME), 0.0)

    @property
    def now(self) -> float:
        """Seconds since virtual time began."""
        return self._sim.now

    def pause(self, seconds: float) -> None:
        """Let virtual time pass; events are queued for their subscriber."""
        until = self.now + seconds
        while self.now < until:
            self.advance(until)

    def advance(self, until: float) -> None:
        """Let virtual time pass until an event comes, at most until a time, and for one slice only."""
        self._heed()
        least = self.now + _MOMENT  # what was due a rounding error ago is due then
        for host, event in self._sim.run(max(least, min(until, self.now + self._slice))):
            for hearing in self._event_queues:
                hearing.take(host, event)
        if self._mirror is not None:
            self._mirror.write_now_and_then()

    def _heed(self) -> None:
        """Tell once that somebody wants to end it."""
        if self._interrupts.seen and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt

    def mirror(self, place: Path, *, keep: bool = False) -> None:
        """Write fabric and history below a place as time passes, until it is stopped; LabError where that cannot be."""
        self.follow(Mirror(self, place, keep=keep))

    def follow(self, follower: "Follower") -> None:
        """Have a follower look at the history as time passes, until it is closed; one at a time."""
        self._mirror = follower

    def record(self, event: HistoryEvent, t: float | None = None) -> float:
        """Write a record of the lab's own into the history; returns its time."""
        return self._sim.record(event, t)

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Ask a host or the `controller`; RunError says which of them refused what."""
        self._heed()
        try:
            answer: dict[str, Any] | None = self._sim.call(node, op, **arguments)
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

    def open_loop(
        self,
        arrivals: Iterator[tuple[float, str, str, int]],
        attributes: dict[str, Any],
        done: Callable[[OpenFlow, float, str], None],
    ) -> SimOpenLoop:
        """Make a driver of flows that arrive by themselves; nothing begins yet."""
        return self._sim.open_loop(arrivals, attributes, done)

    def history_since(self, number: int) -> list[str]:
        """The records that were written after the first `number`, as JSON lines, in the order of writing."""
        return self._sim.history_since(number)

    def lead(self, hosts: int) -> float:
        """All hosts are notified at the same time."""
        return 0.0

    def subscribe(self, nodes: Iterable[str], kinds: Collection[str] = KINDS) -> "_EventQueue":
        """Hear some nodes from now on."""
        made = _EventQueue(self, nodes, kinds)
        self._event_queues.append(made)
        return made

    def unsubscribe(self, hearing: "_EventQueue") -> None:
        """Somebody wants to hear no more."""
        self._event_queues = [other for other in self._event_queues if other is not hearing]

    def on_notice(self, say: Callable[[str], None]) -> None:
        """No process of its own can be stopped."""

    def last_output(self, node: str) -> str:
        """Return the last output of a node that ended."""
        return self._sim.last_output(node)

    def stuck(self) -> list[str]:
        """Return what waits for what, a sentence each."""
        return self._sim.stuck()

    def deadlocked(self) -> bool:
        """Return True if QPs wait, and each of them for ever unless somebody clears what is broken."""
        return self._sim.deadlocked()

    def depths(self) -> dict[str, dict[str, int]]:
        """Packets in the data queues now."""
        return self._sim.depths()[0]

    def stop(self) -> None:
        """Nothing happens any more."""
        self._sim.stop()
        self.end_mirror()

    def end_mirror(self) -> None:
        """Nobody reads it any more."""
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None

    def realtime(self) -> AbstractContextManager[None]:
        """Nothing: virtual time waits."""
        return nullcontext()

    def facts(self) -> dict[str, Any]:
        """Return the world's facts for a report."""
        facts = {"world": NAME, "target": "virtual time", "real_time": True, "bring_up_seconds": 0.0}
        if not self._keeps_history:
            return {**facts, "history": "none"}
        return {**facts, "history_sha256": self._digest} if self._digest else facts

    def collect(self, directory: Path) -> None:
        """Write what it was made of and what happened; `facts` then has the digest of the history."""
        self._sim.collect(directory)
        if self._keeps_history:
            self._digest = history.digest(directory / "history.jsonl")

    def hand_over(self) -> CompressedLog:
        """Give up what happened, unwritten."""
        return self._sim.hand_over()

    def snapshot(self, directory: Path) -> None:
        """Write what it is made of and what has happened, and go on."""
        self._sim.snapshot(directory)


class _EventQueue:
    """Subscription to the events of some nodes; a `mrclab.lab.run.world.EventQueue`."""

    def __init__(self, world: VirtualWorld, nodes: Iterable[str], kinds: Collection[str]) -> None:
        self._world = world
        self._kinds = {*kinds, GONE}
        self._heard: deque[Event] = deque()
        self._joined: set[str] = set()
        for node in nodes:
            self.join(node)

    def join(self, host: str) -> None:
        """Hear a node; RunError where it does not answer."""
        self._world.call(host, "hello" if host in self._world.hosts else "status")
        self._joined.add(host)

    def hears(self, host: str) -> bool:
        """Return True if a host is heard."""
        return host in self._joined

    def take(self, host: str, event: dict[str, Any]) -> None:
        """Queue an event."""
        if host in self._joined and event["kind"] in self._kinds:
            self._heard.append((host, event))
            if event["kind"] == GONE:
                self._joined.discard(host)

    def wait(self, until: float) -> list[Event]:
        """Return all events; virtual time passes where there are none yet."""
        if not self._heard:
            self._world.advance(until)
        while not self._heard and self._world.now < until:
            self._world.advance(until)
        found = list(self._heard)
        self._heard.clear()
        return found

    def close(self) -> None:
        """Hear nobody any more."""
        self._world.unsubscribe(self)


@contextmanager
def virtual_world(
    fabric: Fabric,
    *,
    seed: int = 1,
    mapper: MapperSpec | None = None,
    transport: TransportSpec | None = None,
    of_hosts: Mapping[str, TransportSpec] | None = None,
    keeps_history: bool = True,
) -> Iterator[VirtualWorld]:
    """A lab in virtual time inside the block; its files go after it."""
    with guarded() as interrupts, tempfile.TemporaryDirectory(prefix=folder_prefix()) as folder:
        interrupts.defer()
        given = Path(folder), interrupts
        world = VirtualWorld(
            fabric,
            *given,
            seed=seed,
            mapper=mapper,
            transport=transport,
            of_hosts=of_hosts,
            keeps_history=keeps_history,
        )
        try:
            yield world
            if interrupts.seen and not world.interrupted:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None
        finally:
            world.end_mirror()
