"""Records of processes: their ends and stops, CPU time, helpers that were late."""

from mrclab.events.event import At, Event, Seconds, event


@event("process.died")
class ProcessDied(Event):
    """Unexpected end of a process: the run is [INVALID](expectations.md#an-invalid-run)."""

    process: str
    reason: str


@event("process.ended")
class ProcessEnded(Event):
    """End of a process that a fault or a command ended; on the wire with how."""

    process: str
    reason: str | None = None


@event("process.stopped")
class ProcessStop(Event):
    """Stop of a process (state T) by a signal that was no fault's."""

    process: str
    pid: int


@event("process.resumed")
class ProcessResume(Event):
    """Continuation of a stopped process, with the time it was stopped."""

    process: str
    seconds: Seconds


@event("helper.late")
class HelperLate(Event):
    """End of a relay or of a background sender: the longest that it was late, and when that ended."""

    process: str
    late: Seconds
    at: At


@event("cpu")
class CpuSample(Event):
    """CPU time so far of each process of the lab, and its wait for a core; `steal`: time taken by the hypervisor.

    `lab_late`: wake-up latency of the lab's own process.
    """

    seconds: dict[str, Seconds]
    waited: dict[str, Seconds]
    steal: Seconds
    lab_late: Seconds
