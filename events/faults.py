"""Records of faults: their beginning and end, their effect on packets, and the fabric's state after the last."""

from typing import ClassVar

from mrclab.events.event import Event, event


class FaultFacts(Event):
    """Facts of a fault: its cables, paths (plane and uplink) and processes, and the nodes that it stops."""

    fault: str
    fault_kind: str
    links: list[str]
    text: str
    link: str | None = None
    paths: list[list[int]] | None = None
    processes: list[str] | None = None
    stops: list[str] | None = None


@event("fault.begin")
class FaultBegin(FaultFacts):
    """Injection of a fault: the cables, paths (plane and uplink) and processes that it concerns, the first cable in
    `link`, and the nodes that it stops.
    """


@event("fault.end")
class FaultEnd(FaultFacts):
    """End of a fault, with the same fields as its beginning."""


@event("fault.edge")
class FaultEdge(Event):
    """Change of a cable that flaps: it went down, or came up."""

    fault: str
    link: str
    up: bool


@event("fault.counters")
class FaultCounters(Event):
    """Effect of a fault on packets, where it can be counted, at its end.

    Each counter is a field of its own: `seen`, `dropped`, `damaged`, `refused`, `sent`, `flaps`, and what faults of
    other packages count.
    """

    more: ClassVar[str] = "counters"
    fault: str
    fault_kind: str
    counters: dict[str, int]


@event("faults.cleared")
class FaultsCleared(Event):
    """Verification of the fabric after the last fault: problems of cables, and wrong table entries."""

    verified: bool
    problems: list[str]
    entries: list[str]
