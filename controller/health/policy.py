"""Policies on Clustermapper's verdicts: which elements to deny and when to lift that. Policy is data; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mrclab.controller.health.elements import Element, ElementKind
from mrclab.controller.health.localise import LocalisedFault


@dataclass(frozen=True)
class Policy:
    """`deny` gives, per kind of element, the least loss rate at which it is denied; kinds left out never are.

    Only a NIC–T0 cable that is up and loses packets must be denied: MRC cannot tell which of its ends it is, and so
    cannot heal it; everything else it routes around by itself (arXiv 2605.04333 §4), what is dead included.
    """

    deny: Mapping[ElementKind, float] = field(default_factory=lambda: {"nic-link": 0.01})
    deny_dead: bool = False  # deny also what answers no probe at all
    hold_down: float = 30.0  # seconds an element must have been healthy before its denial is lifted


POLICIES: Mapping[str, Policy] = {
    "observe": Policy(deny={}),
    "default": Policy(),
    "all": Policy(
        deny={"nic-link": 0.01, "fabric-link": 0.01, "t1": 0.01, "t0": 0.01}, deny_dead=True
    ),  # before a job starts: what MRC would find out by itself, at the price of some packets, it need not find out
}
"""Policies by the name that the command line knows."""


@dataclass(frozen=True)
class Decision:
    """Decision of a policy."""

    deny: tuple[LocalisedFault, ...] = ()
    undeny: tuple[Element, ...] = ()


class PolicyEngine:
    """Applies a policy over time: `decide` whenever there are new verdicts."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self._healthy_since: dict[Element, float] = {}

    def decide(self, verdicts: Iterable[LocalisedFault], denied: Iterable[Element], now: float) -> Decision:
        """Decide what to deny and what to release, given what is `denied` for Clustermapper at `now` (seconds)."""
        at_fault = {verdict.element: verdict for verdict in verdicts}
        held = set(denied)
        deny = tuple(v for v in at_fault.values() if v.element not in held and self._is_bad(v))
        for element in held:
            if element in at_fault:
                self._healthy_since.pop(element, None)
            else:
                self._healthy_since.setdefault(element, now)
        self._healthy_since = {e: since for e, since in self._healthy_since.items() if e in held}
        lift = [e for e, since in self._healthy_since.items() if now - since >= self.policy.hold_down]
        return Decision(deny, tuple(sorted(lift)))

    def _is_bad(self, verdict: LocalisedFault) -> bool:
        least = self.policy.deny.get(verdict.element.kind)
        if least is None or (verdict.state == "down" and not self.policy.deny_dead):
            return False
        return verdict.rate >= least  # rivals carry the very same paths, so denying one denies all
