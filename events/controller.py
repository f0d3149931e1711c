"""Records of the controller: itself, hosts' agents, and elements taken out of use."""

from mrclab.events.event import At, Event, Seconds, event


@event("controller.up")
class ControllerUp(Event):
    """Start of the controller: its election id, how many switches it has, the port of its metrics, if any."""

    election_id: int
    switches: int
    metrics_port: int | None


@event("controller.down")
class ControllerDown(Event):
    """End of the controller in good order."""


@event("heartbeat")
class ControllerHeartbeat(Event):
    """Health of the controller's event loop, four times a second.

    `late`: the longest delay of a wake-up since the last record, `at`: when that ended, `cpu`: CPU time so far.
    """

    late: Seconds
    at: At
    cpu: Seconds


@event("nodes.written")
class NodesWritten(Event):
    """Publication of new node configs, with the number of hosts."""

    hosts: int
    version: int


@event("node.damaged")
class NodeDamaged(Event):
    """Discovery of a node config that cannot be read; it is written again."""

    host: str
    reason: str


@event("agent.up")
class AgentUp(Event):
    """Connection to a host's agent, which uses this version of its config."""

    host: str
    version: int


@event("agent.updated")
class AgentUpdated(Event):
    """Adoption of a newer config, reported by an agent."""

    host: str
    version: int


@event("agent.refused")
class AgentRefused(Event):
    """Refusal of a config by an agent, which keeps the one that it has."""

    host: str
    version: int
    reason: str


@event("agent.down")
class AgentDown(Event):
    """End of the connection to an agent."""

    host: str


@event("denied")
class ElementDenied(Event):
    """Denial of an element: hosts no longer use it. `source` is `clustermapper`, `drain` or `operator`."""

    element: str
    reason: str
    source: str


@event("undenied")
class ElementUndenied(Event):
    """End of an element's denials by one source, or by `any`."""

    element: str
    source: str


@event("drained")
class SwitchDrained(Event):
    """Drain of a switch, after which it carries nothing of any QP."""

    switch: str
    seconds: Seconds


@event("drain.incomplete")
class DrainIncomplete(Event):
    """Drain of a switch that still carried traffic when its time was over."""

    switch: str
    seconds: Seconds


@event("undrained")
class SwitchUndrained(Event):
    """Return of a drained switch into service."""

    switch: str
    seconds: Seconds
