"""Records of switches and cables: provisioning, verification, counters, queues."""

from typing import Any

from mrclab.events.event import Event, Packets, PortNumber, Seconds, event


@event("switch.up")
class SwitchUp(Event):
    """Session with a switch: the controller is its primary or a backup."""

    switch: str
    role: str


@event("switch.ready")
class SwitchReady(Event):
    """End of a switch's provisioning.

    On the wire also `adopted`: the switch ran the program before; the numbers of entries written; the duration.
    """

    switch: str
    adopted: bool | None = None
    inserted: int | None = None
    modified: int | None = None
    deleted: int | None = None
    seconds: Seconds | None = None


@event("switch.down")
class SwitchDown(Event):
    """End of the session with a switch."""

    switch: str
    reason: str


@event("switch.error")
class SwitchFailed(Event):
    """Failure of a session or request, recorded once however often it is retried."""

    switch: str
    error: str


@event("switch.silent")
class SwitchSilent(Event):
    """Request to which a switch did not respond in time."""

    switch: str
    reason: str


@event("switch.answers")
class SwitchAnswers(Event):
    """Response of a switch that was silent."""

    switch: str


@event("switch.takeover")
class SwitchTakeover(Event):
    """Promotion of this controller to the primary of a switch."""

    switch: str
    election_id: int


@event("switch.demoted")
class SwitchDemoted(Event):
    """Loss of a switch to another controller, by its election id."""

    switch: str
    primary: int


@event("program.replaced")
class ProgramReplaced(Event):
    """Replacement of a switch's P4 program, which was another one."""

    switch: str


@event("link.verified")
class LinkVerified(Event):
    """Verification of a cable that was wrong or silent before, or is new."""

    link: str


@event("link.failed")
class LinkFailed(Event):
    """Finding that a cable is `wrong` or `silent`, and why."""

    link: str
    state: str
    reason: str


@event("verified")
class FabricVerified(Event):
    """Verification of every cable in both directions, in seconds since the controller began."""

    seconds: Seconds
    links: int


@event("entries.wrong")
class EntriesWrong(Event):
    """Table entries that an audit found wrong, a phrase each."""

    entries: list[str]


@event("entries.right")
class EntriesRight(Event):
    """Audit that found all entries right after some had been wrong; `entries` is empty."""

    entries: list[str]


@event("misrouted")
class RouteMisdirected(Event):
    """Change of a switch's route by `misroute`, away from `port` to another, or with 0 to none."""

    switch: str
    port: PortNumber
    to: PortNumber
    entry: str


@event("switches")
class SwitchTotals(Event):
    """[Counters of every switch](operations.md#in-the-history), every second; one that does not answer is left out."""

    switches: dict[str, dict[str, Any]]


@event("counters")
class SwitchCounters(Event):
    """Counters of all switches by port, at the beginning and end of a run."""

    switches: dict[str, dict[str, Any]]


@event("depths")
class QueueDepthSample(Event):
    """Packets that wait in data queues, by switch and port, where there are any.

    `silent`: switches without a reply; `late`: seconds by which a switch reported late.
    """

    switches: dict[str, dict[str, Packets]]
    silent: list[str]
    late: dict[str, Seconds] | None = None
