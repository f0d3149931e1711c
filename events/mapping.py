"""Records of Clustermapper: verdicts on elements, and the state of all cables."""

from typing import ClassVar

from mrclab.events.event import Event, Seconds, Share, event


@event
class VerdictGiven(Event):
    """Verdict on an element at fault, new or with another state.

    `rate`: share of probes lost; `evidence`: logarithm of how much likelier this element is than none; `alternatives`:
    elements that explain the probes as well.
    """

    kind: ClassVar[str] = "verdict"
    element: str
    element_kind: str
    state: str
    rate: Share
    evidence: float
    alternatives: list[str]


@event
class VerdictOver(Event):
    """End of a verdict."""

    kind: ClassVar[str] = "verdict.over"
    element: str


@event
class DenyRefused(Event):
    """Refusal to deny an element on which there is a verdict."""

    kind: ClassVar[str] = "deny.refused"
    element: str
    reason: str


@event
class CableMap(Event):
    """State, loss and RTT of each cable; when a verdict comes or goes, and every second while there is one."""

    kind: ClassVar[str] = "map"
    links: dict[str, tuple[str, Share | None, Seconds | None]]
