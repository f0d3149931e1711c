"""The switch: ports, queues and a program, owned by one thread; and the door through which others reach it.

`SoftSwitch.loop` is that thread. What other threads want done goes through `run`: while the loop sleeps they do it
themselves, and it waits for them should a packet come; while it works it does it for them, between two batches of
packets. A hand-over costs two changes of threads, which is more than most updates.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import threading
from collections import deque
from collections.abc import Callable
from select import EPOLLERR
from typing import TYPE_CHECKING, Any, TypeVar

from mrclab.softswitch.clock import REAL, SwitchClock
from mrclab.softswitch.objects.replication import Replication
from mrclab.softswitch.objects.runtime_api import (
    AlreadyExistsError,
    DigestCallback,
    InvalidRequestError,
    NotFoundError,
    PacketInCallback,
    PreconditionError,
    ProgramInfo,
)
from mrclab.softswitch.process.lateness import LongestWait
from mrclab.softswitch.process.pcap import PcapRecorder
from mrclab.softswitch.process.ports import SoftSwitchPort
from mrclab.softswitch.process.ring import RING_BYTES
from mrclab.softswitch.traffic_manager import TrafficManager

if TYPE_CHECKING:  # the methods that need these import them: a switch is up before it has a program
    from mrclab.softswitch.objects.tables import RuntimeProfile, RuntimeTable
    from mrclab.softswitch.pipeline import Compiled, Instance

log = logging.getLogger(__name__)

T = TypeVar("T")

Reader = Callable[[], int | None]
"""Takes what can be read from a descriptor; a port's tells how many frames that were."""

AGEING_SECONDS = 0.25
"""How often entries are looked at for their idle timeout."""
BUSY_TURNS = 16
"""Turns with frames after which all descriptors are looked at nevertheless."""
EVENTS = 16
"""Descriptors served per look."""
AGAIN_BATCH = 64
"""Resubmitted and recirculated packets per turn of the loop."""


class _Call:
    """A function handed over by another thread, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Call the function and note its result."""
        try:
            self.result = self.function()
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()


class SoftSwitch:
    """The data plane's owner. Everything but `run`, `compile` and `stop` belongs to the thread in `loop`, or in `run`.

    No packet is forwarded during a `run`: batches of updates are best kept near 100. Callbacks (packet-in, digest,
    idle) are called in such a thread, and must neither block nor raise. What is refused is a `RuntimeApiError`.

    `clock` is the time that queues, meters, idle timeouts and timestamps go by, and `rng` what the program draws from.
    """

    def __init__(
        self,
        cpu_port: int | None = None,
        drop_port: int = 511,
        priorities: int = 1,
        clock: SwitchClock = REAL,
        rng: random.Random | None = None,
    ) -> None:
        self.cpu_port = cpu_port
        self.drop_port = drop_port
        self.instance: Instance | None = None
        self._saved: tuple[Instance, Replication] | None = None
        self.clock, self.rng = clock, rng or random.Random()
        self._nanoseconds, self._started_ns = clock.nanoseconds, clock.nanoseconds()
        self.traffic = self.make_queues(priorities)
        self.replication = Replication(self.traffic.enqueue)
        self.recorder: PcapRecorder | None = None
        self.errors = 0
        self._lateness = LongestWait()
        self._ports: dict[int, SoftSwitchPort] = {}
        self._outlets: dict[int, Callable[[bytearray], None]] = {}
        self._readers: dict[int, Reader] = {}
        self._hot: list[Reader] = []
        self._poll = select.epoll()
        self._again: deque[tuple[Any, ...]] = deque()
        self._calls: deque[_Call] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(self._wake_read, self._drain_wake)
        self._thread: int | None = None  # in `loop`
        self._gate = threading.Lock()  # held by who may touch the data plane; the loop lets go of it while it sleeps
        self._guest: int | None = None  # the thread that holds it in `run`
        self._wakes_at: float | None = None  # when a sleeping loop wakes by itself; None: never
        self._running = True
        self._packet_in: PacketInCallback | None = None
        self._on_idle: Callable[[str, list[Any]], None] | None = None
        self._next_ageing = 0.0
        self._has_timers = False
        self.digest_callback: DigestCallback | None = None
        self.enqueue = self.traffic.enqueue
        self.again = self._again.append
        self.multicast = self.replication.multicast
        self.clone_to = self.replication.clone_to

    def make_queues(self, priorities: int) -> TrafficManager:
        """Return the queues of the switch's ports."""
        return TrafficManager(priorities, self.now_us, self.clock)

    # -- called by the generated code ---------------------------------------------------------------------------------

    def now_us(self) -> int:
        """Return microseconds since the switch started."""
        return (self._nanoseconds() - self._started_ns) // 1000

    def transmit(self, number: int, data: bytearray) -> None:
        """Send a packet out of a port, or up to the control plane."""
        outlet = self._outlets.get(number)
        if outlet is not None:
            outlet(data)
        elif number == self.cpu_port and self._packet_in is not None:
            self._packet_in(bytes(data))

    @staticmethod
    def out_of_range(what: str, index: int) -> None:
        """Report an access beyond an array; BMv2 does nothing else either."""
        log.error("%s: index %d is out of range, nothing done", what, index)

    @staticmethod
    def log_msg(text: str, values: list[int]) -> None:
        """Log what the program's log_msg says, values in the place of {}."""
        for value in values:
            text = text.replace("{}", str(value), 1)
        log.info("%s", text)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def loop(self) -> None:
        """Forward packets until `stop`."""
        with self._gate:
            self._thread = threading.get_ident()
            try:
                self._forward()
            finally:
                self._run_calls()
                self._thread = None

    def _forward(self) -> None:
        """Wait, and do what is due; few steps, because a switch that waits most of the time finds its caches cold.

        Ports where more than one frame was waiting are `hot`: their rings, which are memory, are looked at again before
        the kernel is asked.
        """
        readers, traffic, calls, again = self._readers, self.traffic, self._calls, self._again
        turns = 0
        while self._running:
            if self._hot:
                self._hot = [reader for reader in self._hot if self._read(reader) > 1]
                turns += 1
            if not self._hot or not turns % BUSY_TURNS:
                for fd, event in self._poll.poll(0, EVENTS) if self._hot else self._sleep():
                    reader = readers.get(fd)
                    if reader is not None and self._read(reader) > 1 and reader not in self._hot:
                        self._hot.append(reader)
                    if event & EPOLLERR:
                        self._clear_error(fd)
            if traffic.timers:
                self._guarded(traffic.run)
            if again:
                self._run_again()
            if calls:
                self._run_calls()
            if self._has_timers:
                self._timers()

    def _read(self, reader: Reader) -> int:
        """Let a reader take what is there; return how many frames that were."""
        try:
            return reader() or 0
        except Exception as error:
            self._lost(error)
            return 1

    def _sleep(self) -> list[tuple[int, int]]:
        """Wait until something can be read or is due, others may use the data plane meanwhile; return what can be read.

        epoll counts its timeout in milliseconds, so that it is select that waits for less.
        """
        timeout = self._timeout()
        if timeout == 0.0:
            return self._poll.poll(0, EVENTS)
        self._wakes_at = None if timeout is None else self.clock.seconds() + timeout
        self._gate.release()
        try:
            if timeout is not None and not select.select([self._poll], (), (), timeout)[0]:
                return []
            return self._poll.poll(None, EVENTS)
        finally:
            self._gate.acquire()

    def _clear_error(self, fd: int) -> None:
        """Forget that an interface went down, or its socket would stay ready."""
        for port in self._ports.values():
            if port.fileno == fd:
                port.clear_error()

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _timeout(self) -> float | None:
        if self._again or self._calls:
            return 0.0
        deadline = self.traffic.deadline
        if self._has_timers and self.instance is not None:
            for other in (self.instance.digests.deadline, self._next_ageing if self.instance.ages else None):
                if other is not None and (deadline is None or other < deadline):
                    deadline = other
        return None if deadline is None else max(deadline - self.clock.seconds(), 0.0)

    def _guarded(self, function: Callable[[], object]) -> None:
        """Call into the program; what it cannot do with one packet costs that packet, not the switch."""
        try:
            function()
        except Exception as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Note what the program could not do with a packet."""
        self.errors += 1
        log.error("a packet was lost to an error in the program", exc_info=error)

    def _attach(self, port: SoftSwitchPort) -> None:
        """Have a port's frames go to the running program."""
        ingress = self.instance.ingress if self.instance is not None else _discard
        if self.recorder is not None:
            ingress = self.recorder.recording(ingress)
            self._outlets[port.number] = self.recorder.recorded(port.number, port.send)
        else:
            self._outlets[port.number] = port.send
        self._readers[port.fileno] = port.receiver(ingress, self._lateness.frame)
        self._hot = []

    def record(self, recorder: PcapRecorder) -> None:
        """Record all packets from now on."""
        self.recorder = recorder
        for port in self._ports.values():
            self._attach(port)

    def _run_again(self) -> None:
        instance = self.instance
        for _ in range(min(len(self._again), AGAIN_BATCH)):
            packet = self._again.popleft()
            if instance is not None and instance.ingress_again is not None:
                function = instance.ingress_again
                self._guarded(lambda function=function, packet=packet: function(*packet))  # type: ignore[misc]

    def _run_calls(self) -> None:
        while self._calls:
            self._calls.popleft().run()

    def _timers(self) -> None:
        instance = self.instance
        if instance is None:
            return
        deadline = instance.digests.deadline
        if deadline is not None:
            instance.digests.run()
        now = self.clock.seconds() if instance.ages else 0.0
        if instance.ages and now >= self._next_ageing:
            self._next_ageing = now + AGEING_SECONDS
            for name, table in instance.tables.items():
                idle = table.idle()
                if idle and self._on_idle is not None:
                    self._on_idle(name, idle)

    # -- from other threads -------------------------------------------------------------------------------------------

    def run(self, function: Callable[[], T]) -> T:
        """Run `function` between two packets, here or in the loop's thread, and return what it returns."""
        me = threading.get_ident()
        if me in (self._thread, self._guest):
            return function()
        if self._gate.acquire(blocking=self._thread is None):
            return self._visit(me, function)
        call = _Call(function)
        self._calls.append(call)
        self._wake()
        while not call.done.wait(0.5):
            if self._thread is None and self._gate.acquire(blocking=False):
                self._visit(me, self._run_calls)
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _visit(self, me: int, function: Callable[[], T]) -> T:
        """Run `function` in this thread, which holds the gate, and let go of it; the loop learns what is due sooner."""
        self._guest = me
        try:
            return function()
        finally:
            self._guest = None
            sooner = self._thread is not None and self._due_sooner()
            self._gate.release()
            if sooner:
                self._wake()

    def _due_sooner(self) -> bool:
        """Return True if something is due before the sleeping loop wakes."""
        timeout = self._timeout()
        return timeout is not None and (self._wakes_at is None or self.clock.seconds() + timeout < self._wakes_at)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def stop(self) -> None:
        """End `loop`; any thread or signal handler may call it."""
        self._running = False
        self._wake()

    def close(self) -> None:
        """Close the ports."""
        for port in self._ports.values():
            port.close()
        self._poll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def watch(self, fd: int, reader: Reader | None) -> None:
        """Call `reader` when `fd` can be read; None ends that."""
        self._hot = []
        if reader is None:
            if self._readers.pop(fd, None) is not None:
                self._poll.unregister(fd)
        else:
            if fd not in self._readers:
                self._poll.register(fd, select.EPOLLIN)
            self._readers[fd] = reader

    # -- pipeline -----------------------------------------------------------------------------------------------------

    def compile(self, config: str | bytes) -> Compiled:
        """Compile a BMv2 JSON text. Slow; any thread; changes nothing. Raises PipelineError."""
        from mrclab.softswitch.pipeline import compile_program  # noqa: PLC0415

        return compile_program(config, self.drop_port)

    def commit(self, pipeline: Any, keep_state: bool = False) -> None:
        """Make `pipeline` the running one; everything starts empty unless `keep_state` and the program is the same."""
        if keep_state and self.instance is not None and self.instance.compiled.config == pipeline.config:
            return
        instance, replication = self._prepared(pipeline)
        self._saved = None
        self.replication.take_over(replication)
        self.traffic.clear()
        self._again.clear()
        self.instance = instance
        self.instance.digests.callback = self.digest_callback
        self.traffic.wants_time = pipeline.enqueue_time
        self._has_timers = self.instance.ages or bool(self.instance.info.digests)
        for port in self._ports.values():
            self._attach(port)

    def save(self, pipeline: Any) -> None:
        """Make `pipeline` what the control plane reads and writes; the running one forwards on until `commit`."""
        from mrclab.softswitch.pipeline import Compiled, Instance  # noqa: PLC0415

        assert isinstance(pipeline, Compiled)
        replication = Replication(self.traffic.enqueue)
        self._saved = Instance(pipeline, self, replication.sessions), replication

    def _prepared(self, pipeline: Compiled) -> tuple[Instance, Replication]:
        """Return what was saved for `pipeline`, with all that was written to it since; a new one where nothing was."""
        if self._saved is None or self._saved[0].compiled is not pipeline:
            self.save(pipeline)
        assert self._saved is not None
        return self._saved

    @property
    def info(self) -> ProgramInfo | None:
        """The running program's names, None before the first commit."""
        return None if self.instance is None else self.instance.info

    def program(self) -> Instance:
        """Return the program that is written to: the saved one, else the running one. PreconditionError without any."""
        if self._saved is not None:
            return self._saved[0]
        if self.instance is None:
            raise PreconditionError("no pipeline is set yet")
        return self.instance

    def copies(self) -> Replication:
        """Return the multicast groups and clone sessions that are written to, as `program` does."""
        return self.replication if self._saved is None else self._saved[1]

    def table(self, name: str) -> RuntimeTable:
        """Return a table of the program that is written to."""
        table = self.program().tables.get(name)
        if table is None:
            raise NotFoundError(f"the program has no table {name}")
        return table

    def profile(self, name: str) -> RuntimeProfile:
        """Return an action profile of the program that is written to."""
        profile = self.program().profiles.get(name)
        if profile is None:
            raise NotFoundError(f"the program has no action profile {name}")
        return profile

    def on_digest(self, callback: DigestCallback | None) -> None:
        """Set who gets digest lists."""
        self.digest_callback = callback
        if self.instance is not None:
            self.instance.digests.callback = callback

    # -- packets, ports and queues ------------------------------------------------------------------------------------

    def packet_out(self, data: bytes) -> None:
        """Inject a packet as received on the CPU port."""
        if self.cpu_port is None:
            raise PreconditionError("the switch was started without a CPU port")
        instance, frame, cpu_port = self.program(), bytearray(data), self.cpu_port
        self._guarded(lambda: instance.ingress(frame, cpu_port, len(frame)))

    def inject(self, port: int, data: bytes) -> None:
        """Process a frame as if received on `port` (for tests and tools)."""
        self.program().ingress(bytearray(data), port, len(data))

    def settle(self) -> None:
        """Run what resubmits, recirculations and due queues are left, in place of the loop (for tests and tools)."""
        while self._again:
            self._run_again()
            self.traffic.run()
        self.traffic.run()

    def on_packet_in(self, callback: PacketInCallback | None) -> None:
        """Set who gets packets that leave through the CPU port."""
        self._packet_in = callback

    def on_idle(self, callback: Callable[[str, list[Any]], None] | None) -> None:
        """Set who hears of idle entries."""
        self._on_idle = callback

    def add_port(self, port: int, interface: str, ring: int = RING_BYTES) -> None:
        """Attach a network interface, with so many bytes for what comes in."""
        if port in self._ports:
            raise AlreadyExistsError(f"port {port} is {self._ports[port].interface} already")
        if port in {self.cpu_port, self.drop_port} or not 0 <= port < 512:
            raise InvalidRequestError(f"port {port}: ports are 0 to 511 without the CPU port and the drop port")
        opened = SoftSwitchPort(port, interface, ring)
        self._ports[port] = opened
        self._attach(opened)
        self._poll.register(opened.fileno, select.EPOLLIN)
        self._wake()

    def remove_port(self, port: int) -> None:
        """Detach a network interface."""
        closed = self._ports.pop(port, None)
        if closed is None:
            raise NotFoundError(f"there is no port {port}")
        del self._outlets[port]
        self.watch(closed.fileno, None)
        closed.close()

    def ports(self) -> dict[int, str]:
        """Return the attached interfaces by port number."""
        return {number: port.interface for number, port in self._ports.items()}

    def port(self, number: int) -> SoftSwitchPort:
        """Return one port."""
        if number not in self._ports:
            raise NotFoundError(f"there is no port {number}")
        return self._ports[number]

    def set_queue_rate(self, rate_pps: int, port: int | None = None, priority: int | None = None) -> None:
        """Limit a queue to packets per second (0: no limit); None means every port or every priority."""
        self._check_queue(rate_pps, "rate", priority)
        self.traffic.set_rate(rate_pps, port, priority)

    def set_queue_depth(self, depth: int, port: int | None = None, priority: int | None = None) -> None:
        """Set a queue's capacity in packets."""
        self._check_queue(depth, "depth", priority)
        self.traffic.set_depth(depth, port, priority)

    def take_lateness(self) -> float:
        """Return the longest, in seconds, that a frame waited to be looked at or a packet beyond its time in a queue.

        Of the time since it was last asked for; a switch that was always on time is some ten microseconds late.
        """
        return max(self._lateness.take(), self.traffic.take_lateness())

    def _check_queue(self, value: int, what: str, priority: int | None) -> None:
        if value < 0:
            raise InvalidRequestError(f"queue {what} {value} is negative")
        if priority is not None and not 0 <= priority < self.traffic.priorities:
            raise InvalidRequestError(f"priority {priority}: the switch has {self.traffic.priorities} (0 first)")


def _discard(_frame: bytearray, _port: int, _length: int) -> None:
    """Drop a frame: no program is loaded."""
