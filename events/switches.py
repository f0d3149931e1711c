"""Records of switches and cables: provisioning, verification, counters, queues."""

from typing import Any, ClassVar

from mrclab.events.event import Event, Packets, PortNumber, Seconds, event


@event
class SwitchUp(Event):
    """Session with a switch: the controller is its primary or a backup."""

    kind: ClassVar[str] = "switch.up"
    switch: str
    role: str


@event
class SwitchReady(Event):
    """End of a switch's provisioning.

    On the wire also `adopted`: the switch ran the program before; the numbers of entries written; the duration.
    """

    kind: ClassVar[str] = "switch.ready"
    switch: str
    adopted: bool | None = None
    inserted: int | None = None
    modified: int | None = None
    deleted: int | None = None
    seconds: Seconds | None = None


@event
class SwitchDown(Event):
    """End of the session with a switch."""

    kind: ClassVar[str] = "switch.down"
    switch: str
    reason: str


@event
class SwitchFailed(Event):
    """Failure of a session or request, recorded once however often it is retried."""

    kind: ClassVar[str] = "switch.error"
    switch: str
    error: str


@event
class SwitchSilent(Event):
    """Request to which a switch did not respond in time."""

    kind: ClassVar[str] = "switch.silent"
    switch: str
    reason: str


@event
class SwitchAnswers(Event):
    """Response of a switch that was silent."""

    kind: ClassVar[str] = "switch.answers"
    switch: str


@event
class SwitchTakeover(Event):
    """Promotion of this controller to the primary of a switch."""

    kind: ClassVar[str] = "switch.takeover"
    switch: str
    election_id: int


@event
class SwitchDemoted(Event):
    """Loss of a switch to another controller, by its election id."""

    kind: ClassVar[str] = "switch.demoted"
    switch: str
    primary: int


@event
class ProgramReplaced(Event):
    """Replacement of a switch's P4 program, which was another one."""

    kind: ClassVar[str] = "program.replaced"
    switch: str


@event
class LinkVerified(Event):
    """Verification of a cable that was wrong or silent before, or is new."""

    kind: ClassVar[str] = "link.verified"
    link: str


@event
class LinkFailed(Event):
    """Finding that a cable is `wrong` or `silent`, and why."""

    kind: ClassVar[str] = "link.failed"
    link: str
    state: str
    reason: str


@event
class FabricVerified(Event):
    """Verification of every cable in both directions, in seconds since the controller began."""

    kind: ClassVar[str] = "verified"
    seconds: Seconds
    links: int


@event
class EntriesWrong(Event):
    """Table entries that an audit found wrong, a phrase each."""

    kind: ClassVar[str] = "entries.wrong"
    entries: list[str]


@event
class EntriesRight(Event):
    """Audit that found all entries right after some had been wrong; `entries` is empty."""

    kind: ClassVar[str] = "entries.right"
    entries: list[str]


@event
class RouteMisdirected(Event):
    """Change of a switch's route by `misroute`, away from `port` to another, or with 0 to none."""

    kind: ClassVar[str] = "misrouted"
    switch: str
    port: PortNumber
    to: PortNumber
    entry: str


@event
class SwitchTotals(Event):
    """[Counters of every switch](operations.md#in-the-history), every second; one that does not answer is left out."""

    kind: ClassVar[str] = "switches"
    switches: dict[str, dict[str, Any]]


@event
class SwitchCounters(Event):
    """Counters of all switches by port, at the beginning and end of a run."""

    kind: ClassVar[str] = "counters"
    switches: dict[str, dict[str, Any]]


@event
class QueueDepthSample(Event):
    """Packets that wait in data queues, by switch and port, where there are any.

    `silent`: switches without a reply; `late`: seconds by which a switch reported late.
    """

    kind: ClassVar[str] = "depths"
    switches: dict[str, dict[str, Packets]]
    silent: list[str]
    late: dict[str, Seconds] | None = None
