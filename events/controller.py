"""Records of the controller: itself, hosts' agents, and elements taken out of use."""

from typing import ClassVar

from mrclab.events.event import At, Event, Seconds, event


@event
class ControllerUp(Event):
    """Start of the controller: its election id, how many switches it has, the port of its metrics, if any."""

    kind: ClassVar[str] = "controller.up"
    election_id: int
    switches: int
    metrics_port: int | None


@event
class ControllerDown(Event):
    """End of the controller in good order."""

    kind: ClassVar[str] = "controller.down"


@event
class ControllerHeartbeat(Event):
    """Health of the controller's event loop, four times a second.

    `late`: the longest delay of a wake-up since the last record, `at`: when that ended, `cpu`: CPU time so far.
    """

    kind: ClassVar[str] = "heartbeat"
    late: Seconds
    at: At
    cpu: Seconds


@event
class NodesWritten(Event):
    """Publication of new node configs, with the number of hosts."""

    kind: ClassVar[str] = "nodes.written"
    hosts: int
    version: int


@event
class NodeDamaged(Event):
    """Discovery of a node config that cannot be read; it is written again."""

    kind: ClassVar[str] = "node.damaged"
    host: str
    reason: str


@event
class AgentUp(Event):
    """Connection to a host's agent, which uses this version of its config."""

    kind: ClassVar[str] = "agent.up"
    host: str
    version: int


@event
class AgentUpdated(Event):
    """Adoption of a newer config, reported by an agent."""

    kind: ClassVar[str] = "agent.updated"
    host: str
    version: int


@event
class AgentRefused(Event):
    """Refusal of a config by an agent, which keeps the one that it has."""

    kind: ClassVar[str] = "agent.refused"
    host: str
    version: int
    reason: str


@event
class AgentDown(Event):
    """End of the connection to an agent."""

    kind: ClassVar[str] = "agent.down"
    host: str


@event
class ElementDenied(Event):
    """Denial of an element: hosts no longer use it. `source` is `clustermapper`, `drain` or `operator`."""

    kind: ClassVar[str] = "denied"
    element: str
    reason: str
    source: str


@event
class ElementUndenied(Event):
    """End of an element's denials by one source, or by `any`."""

    kind: ClassVar[str] = "undenied"
    element: str
    source: str


@event
class SwitchDrained(Event):
    """Drain of a switch, after which it carries nothing of any QP."""

    kind: ClassVar[str] = "drained"
    switch: str
    seconds: Seconds


@event
class DrainIncomplete(Event):
    """Drain of a switch that still carried traffic when its time was over."""

    kind: ClassVar[str] = "drain.incomplete"
    switch: str
    seconds: Seconds


@event
class SwitchUndrained(Event):
    """Return of a drained switch into service."""

    kind: ClassVar[str] = "undrained"
    switch: str
    seconds: Seconds
