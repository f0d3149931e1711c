"""Policies on Clustermapper's verdicts: the elements to deny, and when to lift a denial. Policy is data; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mrclab.controller.health.elements import Element, ElementKind
from mrclab.controller.health.localise import LocalisedFault


@dataclass(frozen=True)
class Policy:
    """`deny` maps kinds of elements to the lowest loss rate at which they are denied; other kinds never are.

    Only a NIC–T0 cable that is up and loses packets must be denied: MRC cannot tell which end is at fault, and so
    cannot avoid it; it routes around all other faults by itself (arXiv 2605.04333 §4), dead elements included.
    """

    deny: Mapping[ElementKind, float] = field(default_factory=lambda: {"nic-link": 0.01})
    deny_dead: bool = False  # deny also elements over which all probes are lost
    hold_down: float = 30.0  # seconds an element must have been healthy before its denial is lifted


POLICIES: Mapping[str, Policy] = {
    "observe": Policy(deny={}),
    "default": Policy(),
    "all": Policy(
        deny={"nic-link": 0.01, "fabric-link": 0.01, "t1": 0.01, "t0": 0.01}, deny_dead=True
    ),  # before a job starts: spares MRC the packets it would lose to find these elements itself
}
"""Policies by the name that the command line knows."""


class Decision(NamedTuple):
    """Decision of a policy."""

    deny: tuple[LocalisedFault, ...] = ()
    undeny: tuple[Element, ...] = ()


class PolicyEngine:
    """Applies a policy over time: `decide` whenever there are new verdicts."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self._healthy_since: dict[Element, float] = {}

    def decide(self, verdicts: Iterable[LocalisedFault], denied: Iterable[Element], now: float) -> Decision:
        """Decide which elements to deny and to release, given Clustermapper's present denials at `now` (seconds)."""
        at_fault = {verdict.element: verdict for verdict in verdicts}
        in_force = set(denied)
        deny = tuple(v for v in at_fault.values() if v.element not in in_force and self._is_bad(v))
        for element in in_force:
            if element in at_fault:
                self._healthy_since.pop(element, None)
            else:
                self._healthy_since.setdefault(element, now)
        self._healthy_since = {e: since for e, since in self._healthy_since.items() if e in in_force}
        lift = [e for e, since in self._healthy_since.items() if now - since >= self.policy.hold_down]
        return Decision(deny, tuple(sorted(lift)))

    def _is_bad(self, verdict: LocalisedFault) -> bool:
        least = self.policy.deny.get(verdict.element.kind)
        if least is None or (verdict.state == "down" and not self.policy.deny_dead):
            return False
        return verdict.rate >= least  # alternatives carry the very same paths, so denying one denies all
