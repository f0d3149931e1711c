"""Records of Clustermapper: verdicts on elements, and the state of all cables."""

from mrclab.events.event import Event, Seconds, Share, event


@event("verdict")
class VerdictGiven(Event):
    """Verdict on an element at fault, new or with another state.

    `rate`: share of probes lost; `evidence`: logarithm of how much likelier this element is than none; `alternatives`:
    elements that explain the probes as well.
    """

    element: str
    element_kind: str
    state: str
    rate: Share
    evidence: float
    alternatives: list[str]


@event("verdict.over")
class VerdictOver(Event):
    """End of a verdict."""

    element: str


@event("deny.refused")
class DenyRefused(Event):
    """Refusal to deny an element on which there is a verdict."""

    element: str
    reason: str


@event("map")
class CableMap(Event):
    """State, loss and RTT of each cable; when a verdict comes or goes, and every second while there is one."""

    links: dict[str, tuple[str, Share | None, Seconds | None]]
