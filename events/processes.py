"""Records of processes: their ends and stops, CPU time, helpers that were late."""

from typing import ClassVar

from mrclab.events.event import At, Event, Seconds, event


@event
class ProcessDied(Event):
    """Unexpected end of a process: the run is [INVALID](expectations.md#an-invalid-run)."""

    kind: ClassVar[str] = "process.died"
    process: str
    reason: str


@event
class ProcessEnded(Event):
    """End of a process that a fault or a command ended; on the wire with how."""

    kind: ClassVar[str] = "process.ended"
    process: str
    reason: str | None = None


@event
class ProcessStop(Event):
    """Stop of a process (state T) by a signal that was no fault's."""

    kind: ClassVar[str] = "process.stopped"
    process: str
    pid: int


@event
class ProcessResume(Event):
    """Continuation of a stopped process, with the time it was stopped."""

    kind: ClassVar[str] = "process.resumed"
    process: str
    seconds: Seconds


@event
class HelperLate(Event):
    """End of a relay or of a background sender: the longest that it was late, and when that ended."""

    kind: ClassVar[str] = "helper.late"
    process: str
    late: Seconds
    at: At


@event
class CpuSample(Event):
    """CPU time so far of each process of the lab, and its wait for a core; `steal`: time taken by the hypervisor.

    `lab_late`: wake-up latency of the lab's own process.
    """

    kind: ClassVar[str] = "cpu"
    seconds: dict[str, Seconds]
    waited: dict[str, Seconds]
    steal: Seconds
    lab_late: Seconds
