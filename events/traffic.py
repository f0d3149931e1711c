"""Records of traffic: start and end of each workload and flow, as the lab drives them."""

from typing_extensions import TypedDict

from mrclab.events.event import At, Bytes, Event, Qp, Seconds, Sha256, event


class QpPair(TypedDict):
    """QPs at both ends of a flow."""

    source_qp: Qp
    destination_qp: Qp


class FlowEndpoints(TypedDict):
    """Flow of a workload, with its QPs; the size is 0 where it is not known in advance."""

    flow: str
    source: str
    destination: str
    size: Bytes
    qps: list[QpPair]


@event("traffic.start")
class TrafficStart(Event):
    """Start of a workload. `source`, `destination` and `qps` are those of its first flow."""

    traffic: str
    traffic_kind: str
    source: str
    destination: str
    size: Bytes
    qps: dict[str, Qp] | None = None
    flows: list[FlowEndpoints]


@event("flow.end")
class FlowEnd(Event):
    """End of a flow: digests of both its ends where they are known, of a job the bytes that arrived, of a program its
    exit status.
    """

    traffic: str
    flow: str
    bytes: Bytes
    seconds: Seconds
    sent_sha256: Sha256 | None = None
    received_sha256: Sha256 | None = None
    error: str
    received: Bytes | None = None
    exit_status: int | None = None


@event("traffic.end")
class TrafficEnd(Event):
    """End of all flows of a workload. `iterations`: the duration of each round; `flows`: the number of flows
    that ended, of an open loop.
    """

    traffic: str
    bytes: Bytes
    flows: int | None = None
    sent_sha256: Sha256
    received_sha256: Sha256
    iterations: list[Seconds]
    iteration_ends: list[At] | None = None
    exit_status: int | None = None
    error: str | None = None


@event("training.reference")
class TrainingReference(Event):
    """Steps of a job in the same run without faults: when it began, and when each step ended."""

    traffic: str
    began: At
    ends: list[At]


@event("program.end")
class ProgramEnd(Event):
    """End of a program, and why; a negative exit status is the signal that ended it."""

    traffic: str
    host: str
    place: int
    exit_status: int | None
    error: str
