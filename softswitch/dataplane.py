"""Data plane of a switch: a program, its tables, and queues between numbered ports. No thread, no descriptor.

`SoftSwitch` gives it ports that are interfaces and a loop, `InProcess` calls it frame by frame.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mrclab.softswitch.clock import REAL, SwitchClock
from mrclab.softswitch.objects.runtime_api import (
    DigestCallback,
    InvalidRequestError,
    NotFoundError,
    PacketInCallback,
    PreconditionError,
)
from mrclab.softswitch.traffic_manager import TrafficManager

if TYPE_CHECKING:  # imported by the methods that need them: a switch is up before it has a program
    from mrclab.softswitch.objects.replication import Replication
    from mrclab.softswitch.objects.tables import RuntimeProfile, RuntimeTable
    from mrclab.softswitch.pipeline import Compiled, Instance

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN_BATCH = 64
"""Resubmitted and recirculated packets per turn of the loop."""


class DataPlane:
    """A program and its state. All but `compile` belongs to one thread at a time.

    Callbacks (packet-in, digest, idle) must neither block nor raise. Refusals are `RuntimeApiError`.

    `clock` is the time for queues, meters, idle timeouts and timestamps; the program's random numbers come from `rng`.
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
        self._saved: Instance | None = None
        self.clock, self.rng = clock, rng or random.Random()
        self._nanoseconds, self._started_ns = clock.nanoseconds, clock.nanoseconds()
        self.traffic = self.make_queues(priorities)
        self.errors = 0
        self._outlets: dict[int, Callable[[bytearray], None]] = {}
        self._again: deque[tuple[Any, ...]] = deque()
        self.packet_in_callback: PacketInCallback | None = None  # of packets that leave by the CPU port
        self.idle_callback: Callable[[str, list[Any]], None] | None = None
        self._has_timers = False
        self.digest_callback: DigestCallback | None = None  # of the programs committed from then on
        self.enqueue = self.traffic.enqueue
        self.again = self._again.append

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
        elif number == self.cpu_port and self.packet_in_callback is not None:
            self.packet_in_callback(bytes(data))

    @staticmethod
    def out_of_range(what: str, index: int) -> None:
        """Report an access beyond an array; BMv2 does nothing else either."""
        log.error("%s: index %d is out of range, nothing done", what, index)

    @staticmethod
    def log_msg(text: str, values: list[int]) -> None:
        """Log a message of the program's log_msg, with values for {}."""
        for value in values:
            text = text.replace("{}", str(value), 1)
        log.info("%s", text)

    def run(self, function: Callable[[], T]) -> T:
        """Run `function` between two packets and return its result."""
        return function()

    def program_changed(self) -> None:
        """Called when another program runs."""

    def close(self) -> None:
        """Release the switch's resources."""

    def _guarded(self, function: Callable[[], object]) -> None:
        """Call into the program; an error costs the packet, not the switch."""
        try:
            function()
        except Exception as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        """Log the error of a packet."""
        self.errors += 1
        log.error("a packet was lost to an error in the program", exc_info=error)

    def _run_again(self) -> None:
        instance = self.instance
        for _ in range(min(len(self._again), AGAIN_BATCH)):
            packet = self._again.popleft()
            if instance is not None and instance.ingress_again is not None:
                function = instance.ingress_again
                self._guarded(lambda function=function, packet=packet: function(*packet))  # type: ignore[misc]

    # -- pipeline -----------------------------------------------------------------------------------------------------

    def compile(self, config: str | bytes) -> Compiled:
        """Compile a BMv2 JSON text. Slow; any thread; changes nothing. Raises PipelineError."""
        from mrclab.softswitch.pipeline import compile_program  # noqa: PLC0415

        return compile_program(config, self.drop_port)

    def commit(self, pipeline: Compiled) -> None:
        """Make `pipeline` the running one; everything starts empty, but for writes since it was saved."""
        if self._saved is None or self._saved.compiled is not pipeline:
            self.save(pipeline)
        self.instance, self._saved = self.program(), None
        self.traffic.clear()
        self._again.clear()
        self.instance.digests.callback = self.digest_callback
        self.traffic.needs_time = pipeline.enqueue_time
        self._has_timers = self.instance.ages or bool(pipeline.program.learn_lists)
        self.program_changed()

    def save(self, pipeline: Compiled | None) -> None:
        """Make `pipeline` the one that the control plane reads and writes; the running one forwards until `commit`.

        None: the control plane reads and writes the running one again.
        """
        from mrclab.softswitch.pipeline import Instance  # noqa: PLC0415

        self._saved = None if pipeline is None else Instance(pipeline, self)

    def program(self) -> Instance:
        """Return the program that is written to: the saved one, else the running one. PreconditionError without any."""
        return self._saved or self.running()

    def running(self) -> Instance:
        """Return the program that forwards. PreconditionError without any."""
        if self.instance is None:
            raise PreconditionError("no pipeline is set yet")
        return self.instance

    @property
    def replication(self) -> Replication:
        """Multicast groups and clone sessions of the program that is written to. PreconditionError without any."""
        return self.program().replication

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

    # -- packets and queues -------------------------------------------------------------------------------------------

    def packet_out(self, data: bytes) -> None:
        """Inject a packet as received on the CPU port."""
        if self.cpu_port is None:
            raise PreconditionError("the switch was started without a CPU port")
        instance, frame, cpu_port = self.running(), bytearray(data), self.cpu_port
        self._guarded(lambda: instance.ingress(frame, cpu_port, len(frame)))

    def inject(self, port: int, data: bytes) -> None:
        """Process a frame as if received on `port` (for tests and tools)."""
        self.running().ingress(bytearray(data), port, len(data))

    def settle(self) -> None:
        """Run pending resubmits, recirculations and due queues, in place of the loop (for tests and tools)."""
        while self._again:
            self._run_again()
            self.traffic.run()
        self.traffic.run()

    def set_queue_rate(self, rate_pps: int, port: int | None = None, priority: int | None = None) -> None:
        """Limit a queue to packets per second (0: no limit); None means every port or every priority."""
        self._check_queue(rate_pps, "rate", priority)
        self.traffic.set_rate(rate_pps, port, priority)

    def set_queue_depth(self, depth: int, port: int | None = None, priority: int | None = None) -> None:
        """Set a queue's capacity in packets."""
        self._check_queue(depth, "depth", priority)
        self.traffic.set_depth(depth, port, priority)

    def _check_queue(self, value: int, what: str, priority: int | None) -> None:
        if value < 0:
            raise InvalidRequestError(f"queue {what} {value} is negative")
        if priority is not None and not 0 <= priority < self.traffic.priorities:
            raise InvalidRequestError(f"priority {priority}: the switch has {self.traffic.priorities} (0 first)")
