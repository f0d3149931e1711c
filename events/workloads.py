"""Records of workloads: messages, flows, rounds of a collective, steps of a training job, as hosts write them."""

from mrclab.events.event import At, Bytes, Event, Seconds, Sha256, event


@event("messages")
class Messages(Event):
    """Messages of a flow that ended: began, ended, bytes of each."""

    traffic: str
    flow: str
    done: list[tuple[At, At, Bytes]]


@event("pingpong")
class PingPongs(Event):
    """Round trips of a ping-pong that ended."""

    traffic: str
    flow: str
    rtt: list[Seconds]


@event("iteration")
class IterationDone(Event):
    """End of a round of a collective at one host; `rests` where the host waits a while before the next."""

    traffic: str
    iteration: int
    began: At
    ended: At
    rests: bool = False
    sha256: Sha256 = ""


@event("training.step")
class TrainingStep(Event):
    """End of a step at a rank of a job: in `compute` of it the rank computed.

    Ranks that are programs have the host and, where they report it, the loss.
    """

    traffic: str
    host: str | None = None
    rank: int
    step: int
    began: At
    ended: At
    compute: Seconds | None = None
    loss: float | None = None


@event("flow.done")
class FlowDone(Event):
    """End of a flow at its sender; `error` is empty where it went well."""

    traffic: str
    flow: str
    bytes: Bytes
    began: At | None
    ended: At | None
    error: str


@event("flow.failed")
class FlowFailed(Event):
    """First error of a flow's end."""

    traffic: str
    flow: str
    error: str


@event("flow.received")
class FlowReceived(Event):
    """Arrival of all bytes of a connection of a matrix, where a trigger waits for that."""

    traffic: str
    flow: str
    bytes: Bytes
