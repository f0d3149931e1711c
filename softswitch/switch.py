"""The switch: ports, queues and a program, owned by one thread, and access to it for other threads.

`SoftSwitch.loop` is that thread. Other threads use `run`: while the loop sleeps they do the work themselves, and the
loop waits for them if a packet comes; while it works, it does their work between two batches of packets. A hand-over
costs two thread switches, which is more than most updates.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from select import EPOLLERR
from typing import Any, TypeVar

from mrclab.softswitch.clock import REAL, SwitchClock
from mrclab.softswitch.dataplane import DataPlane
from mrclab.softswitch.objects.runtime_api import AlreadyExistsError, InvalidRequestError, NotFoundError
from mrclab.softswitch.process.lateness import LongestWait
from mrclab.softswitch.process.pcap import PcapRecorder
from mrclab.softswitch.process.ports import SoftSwitchPort
from mrclab.softswitch.process.ring import RING_BYTES

T = TypeVar("T")

Reader = Callable[[], int | None]
"""Reader of a descriptor; a port's returns the number of frames."""

AGEING_SECONDS = 0.25
"""Seconds between two checks of entries' idle timeouts."""
BUSY_TURNS = 16
"""Iterations with frames after which all descriptors are polled nevertheless."""
EVENTS = 16
"""Descriptors served per poll."""


class SoftSwitch(DataPlane):
    """Owner of the data plane. All but `run`, `compile` and `stop` belongs to the thread in `loop`, or in `run`.

    No packet is forwarded during a `run`: batches of updates are best kept near 100. Callbacks (packet-in, digest,
    idle) are called in such a thread, and must neither block nor raise. A refused call raises `RuntimeApiError`.

    `clock` is the time of queues, meters, idle timeouts and timestamps.
    """

    def __init__(
        self, cpu_port: int | None = None, drop_port: int = 511, priorities: int = 1, clock: SwitchClock = REAL
    ) -> None:
        super().__init__(cpu_port, drop_port, priorities, clock)
        self.recorder: PcapRecorder | None = None
        self._lateness = LongestWait()
        self._ports: dict[int, SoftSwitchPort] = {}
        self._readers: dict[int, Reader] = {}
        self._hot: list[Reader] = []
        self._poll = select.epoll()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()  # of other threads
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(self._wake_read, self._drain_wake)
        self._thread: int | None = None  # in `loop`
        self._gate = threading.Lock()  # held by the thread that may use the data plane; the sleeping loop releases it
        self._guest: int | None = None  # thread that holds it in `run`
        self._wakes_at: float | None = None  # wake-up time of a sleeping loop; None: never
        self._running = True
        self._next_ageing = 0.0

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
        """Wait and do due work, in few steps, because a switch that mostly waits has cold caches.

        Ports with more than one waiting frame are `hot`: their rings, which are memory, are read again before the
        kernel is asked.
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
        """Call a reader; return the number of frames."""
        try:
            return reader() or 0
        except Exception as error:
            self._lost(error)
            return 1

    def _sleep(self) -> list[tuple[int, int]]:
        """Wait until a descriptor is readable or a deadline; others may use the data plane. Return the readable ones.

        epoll's timeout has millisecond resolution, so select waits for less.
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
        """Clear an interface's down error, which would keep its socket ready."""
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

    def _attach(self, port: SoftSwitchPort) -> None:
        """Connect a port's frames to the running program."""
        ingress = self.instance.ingress if self.instance is not None else _discard
        if self.recorder is not None:
            ingress = self.recorder.recording(ingress)
            self._outlets[port.number] = self.recorder.recorded(port.number, port.send)
        else:
            self._outlets[port.number] = port.send
        self._readers[port.fileno] = port.receiver(ingress, self._lateness.frame)
        self._hot = []

    def program_changed(self) -> None:
        """Connect the frames of all ports to the program that runs now."""
        for port in self._ports.values():
            self._attach(port)

    def record(self, recorder: PcapRecorder) -> None:
        """Record all packets from now on."""
        self.recorder = recorder
        self.program_changed()

    def _run_calls(self) -> None:
        while self._calls:
            function, result = self._calls.popleft()
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

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
                if idle and self.idle_callback is not None:
                    self.idle_callback(name, idle)

    # -- from other threads -------------------------------------------------------------------------------------------

    def run(self, function: Callable[[], T]) -> T:
        """Run `function` between two packets, here or in the loop's thread, and return its result."""
        me = threading.get_ident()
        if me in (self._thread, self._guest):
            return function()
        if self._gate.acquire(blocking=self._thread is None):
            return self._visit(me, function)
        result: Future[T] = Future()
        self._calls.append((function, result))
        self._wake()
        while not wait([result], 0.5).done:
            if self._thread is None and self._gate.acquire(blocking=False):
                self._visit(me, self._run_calls)
        return result.result()

    def _visit(self, me: int, function: Callable[[], T]) -> T:
        """Run `function` in this thread, which holds the gate, then release it; wake the loop if needed."""
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

    # -- ports --------------------------------------------------------------------------------------------------------

    def add_port(self, port: int, interface: str, ring: int = RING_BYTES) -> None:
        """Attach a network interface, with a receive ring of `ring` bytes."""
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

    def take_lateness(self) -> float:
        """Return the longest time, in seconds, that a frame waited for the switch, or a packet beyond its departure.

        Since the last call; a switch that was always on time is some ten microseconds late.
        """
        return max(self._lateness.take(), self.traffic.take_lateness())


def _discard(_frame: bytearray, _port: int, _length: int) -> None:
    """Drop a frame: no program is loaded."""
