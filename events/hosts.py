"""Records of hosts: their agents, NIC ports, samples and probes."""

from typing_extensions import NotRequired, TypedDict

from mrclab.events.event import Ev, Event, Packets, Plane, PortNumber, Qp, Row, Seconds, Uplink, event


@event("agent.start")
class AgentStart(Event):
    """Start of a host; on the wire with the PID of its agent."""

    pid: int | None = None
    config_version: int
    seed: int


@event("agent.stop")
class AgentStop(Event):
    """End of a host in good order."""


@event("agent.configured")
class AgentConfigured(Event):
    """Adoption of a newer node config."""

    config_version: int


@event("port.state")
class PortState(Event):
    """Change of a NIC port: it lost or got its carrier, or the control side disabled or enabled it."""

    port: PortNumber
    up: bool


@event("peer.ports")
class PeerPorts(Event):
    """News from a peer on which of its ports are up: in `mask`, plane 1 is the lowest bit."""

    peer: str
    mask: int


@event("port.update.unanswered")
class PortUpdateUnanswered(Event):
    """A peer that does not answer repeated port updates; they continue at longer intervals."""

    peer: str


@event("async")
class AsyncEvent(Event):
    """Asynchronous event of the verbs: QP_FATAL with its reason, or CQ_ERR with the queue's number."""

    event: str
    cq: int | None = None
    qp: Qp
    reason: str | None = None


class EvProbeRow(TypedDict):
    """Result of one EV of a batch; without an answer, the RTT is null."""

    ev: Ev
    rtt: Seconds | None
    port: PortNumber
    adj_svc_time: bool


@event("ev.probes")
class EvProbes(Event):
    """End of a batch of EV probes requested by the control interface."""

    batch: int
    peer: str
    results: list[EvProbeRow]


class MapperProbes(TypedDict):
    """Probes of one path in one cycle; where none was answered, the RTT is null."""

    plane: Plane
    uplink: Uplink | None
    sent: Packets
    lost: Packets
    rtt: Seconds | None


@event("mapper.report")
class MapperReport(Event):
    """End of a cycle of Clustermapper's probes at a host."""

    cycle: int
    probes: list[MapperProbes]
    host: str


class PortRow(TypedDict):
    """Counters of a NIC port since the host began; in a large fabric without those that are 0."""

    port: NotRequired[PortNumber]
    up: bool
    tx_packets: NotRequired[int]
    tx_bytes: NotRequired[int]
    rx_packets: NotRequired[int]
    rx_bytes: NotRequired[int]
    tx_errors: NotRequired[int]
    other_frames: NotRequired[int]
    socket_drops: NotRequired[int]
    placed_bytes: NotRequired[int]
    icrc_errors: NotRequired[int]
    malformed: NotRequired[int]
    foreign: NotRequired[int]
    misdelivered: NotRequired[int]
    no_qp: NotRequired[int]


@event("sample")
class HostSample(Event):
    """All counters of a host, every 100 ms (and in proportion at true link speeds).

    Rows of `qps` and `paths` hold the fields that changed since the row before, `ports` everything. `late` and
    `receive_late`: the longest that the NIC's loop and its receiver woke up too late since the sample before; `cpu`:
    CPU time so far.
    """

    qps: list[Row]
    paths: list[Row]
    ports: list[PortRow]
    cpu: Seconds
    delayed_frames: Packets
    delay_line_drops: Packets
    late: Seconds
    receive_late: Seconds
