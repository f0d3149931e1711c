"""Which elements explain the probes that were lost: Clustermapper's inference. Pure.

Every self-probe crosses a known set of elements (arXiv 2605.04333 §3): `locator|T0|self` a NIC–T0 cable and a T0,
`locator|T0|T1|T0|self` a T0–T1 cable and a T1 besides. Losses are explained by as few elements as possible: the one
whose fault makes what was seen most likely is taken first, then the next, as long as each adds enough evidence.
Evidence is a log-likelihood ratio in nats against the network that the elements found so far would give.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple

from mrclab.controller.health.elements import Element, link_element
from mrclab.topo.model import Fabric

RATES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02)  # loss rates of an element that are tried
MOST_LOSS = 0.98  # a dead element is allowed a stray answer: a probe counted late, one sent before it died


class ProbePath(NamedTuple):
    """A self-probe: of which host, in which plane, over which uplink; 0 turns at the T0."""

    host: str
    plane: int
    uplink: int


class Tally(NamedTuple):
    """Probes sent over one path and lost on it. `cycles` has bit n set where some were lost n cycles ago."""

    sent: int
    lost: int
    cycles: int = 0


@dataclass(frozen=True)
class Thresholds:
    """When evidence suffices. Counts are of probe cycles."""

    background: float = 0.001  # loss of a healthy path
    evidence: float = 12.0  # nats that an element must add: odds of 160,000 to 1
    margin: float = 4.0  # nats ahead of the next explanation: odds of 55 to 1; undecided otherwise
    min_losses: int = 3
    min_cycles: int = (
        3  # in which an element that is not dead must have lost probes: one stall of a machine is no loss rate
    )
    windows: tuple[int, ...] = (1, 2, 4, 10, 40, 160)  # looked at: short ones see what is dead, long ones loss
    recovery: float = 6.0  # nats for "healthy again" against the fault's rate
    down_rate: float = 0.9


@dataclass(frozen=True)
class LocalisedFault:
    """One element at fault. `rate` is the share of probes it loses; `rivals` explain the losses equally well."""

    element: Element
    state: Literal["down", "lossy"]
    rate: float
    evidence: float
    rivals: tuple[Element, ...] = field(default=())


def crossed(fabric: Fabric, path: ProbePath) -> tuple[Element, ...]:
    """The elements that a self-probe depends on."""
    host = fabric.host(path.host)
    port = host.port(path.plane)
    t0 = port.peer.node
    elements = [link_element(fabric.link(port.link)), Element("t0", t0)]
    if path.uplink:
        t1 = f"t1-p{path.plane}-{path.uplink}"
        elements += [link_element(fabric.link(f"{t0}/{t1}")), Element("t1", t1)]
    return tuple(elements)


class Localiser:
    """Explains tallies over the paths of one fabric."""

    def __init__(self, fabric: Fabric, thresholds: Thresholds | None = None) -> None:
        self.thresholds = thresholds or Thresholds()
        self._fabric = fabric
        self._crossed: dict[ProbePath, tuple[Element, ...]] = {}

    def crossed(self, path: ProbePath) -> tuple[Element, ...]:
        """The elements that a self-probe depends on."""
        if path not in self._crossed:
            self._crossed[path] = crossed(self._fabric, path)
        return self._crossed[path]

    def verdicts(self, windows: Sequence[Mapping[ProbePath, Tally]]) -> tuple[LocalisedFault, ...]:
        """Elements at fault, most evident first. `windows` are tallies over ever more cycles back from now.

        What a short window has found is left out of the longer ones: there it would be mixed with the time before.
        """
        found: dict[Element, LocalisedFault] = {}
        for window in windows:
            rest = {p: t for p, t in window.items() if t.sent and not any(e in found for e in self.crossed(p))}
            for plane in sorted({path.plane for path, tally in rest.items() if tally.lost}):
                inside = {path: tally for path, tally in rest.items() if path.plane == plane}
                found.update((verdict.element, verdict) for verdict in self._explain(inside))
        return tuple(sorted(found.values(), key=lambda verdict: -verdict.evidence))

    def _explain(self, tallies: Mapping[ProbePath, Tally]) -> list[LocalisedFault]:
        """The elements of one plane that together explain `tallies`."""
        limits = self.thresholds
        survival = dict.fromkeys(tallies, 1 - limits.background)
        verdicts: list[LocalisedFault] = []
        while True:
            ranked = self._ranked(tallies, survival, {verdict.element for verdict in verdicts})
            if not ranked or not self._suffices(ranked[0]):
                return verdicts
            best = ranked[0]
            chosen = [best]
            if best.rate < limits.down_rate:
                # Two dead cables of one T0 look like that T0 losing half; the dead explain exactly which half.
                dead = self._dead(tallies, survival, ranked[1:])
                lead = sum(fit.gain for fit in dead) - limits.evidence * (len(dead) - 1) - best.gain
                if len(dead) > 1 and lead > 0:
                    chosen = dead
                if len(dead) > 1 and abs(lead) < limits.margin:
                    return verdicts
            if chosen == [best] and self._is_contested(best, ranked, tallies):
                return verdicts
            for fit in chosen:
                state: Literal["down", "lossy"] = "down" if fit.rate >= limits.down_rate else "lossy"
                rivals = tuple(o.element for o in ranked if o.paths == fit.paths and o.element != fit.element)
                verdicts.append(LocalisedFault(fit.element, state, fit.rate, fit.gain, rivals))
                _explained(fit, survival)

    def _is_contested(self, best: "_Fit", ranked: Sequence["_Fit"], tallies: Mapping[ProbePath, Tally]) -> bool:
        """Whether another element explains the same losses nearly as well."""
        # What shares no lost probe with the best is another fault, not another explanation.
        shared = {path for path in best.paths if tallies[path].lost}
        others = [fit for fit in ranked[1:] if fit.paths != best.paths and fit.paths & shared]
        return bool(others) and best.gain - others[0].gain < self.thresholds.margin

    def _dead(
        self, tallies: Mapping[ProbePath, Tally], survival: Mapping[ProbePath, float], ranked: Sequence["_Fit"]
    ) -> list["_Fit"]:
        """Which of some elements together explain losses by being dead, the most evident first."""
        left = dict(survival)
        found: list[_Fit] = []
        while True:
            known = {fit.element for fit in found}
            rest = (fit for fit in ranked if fit.element not in known)
            fits = [_fit(fit.element, fit.paths, tallies, left, RATES[:1]) for fit in rest]
            best = max(fits, key=lambda fit: fit.gain, default=None)
            if best is None or best.gain < self.thresholds.evidence:
                return found
            found.append(best)
            _explained(best, left)

    def _suffices(self, fit: "_Fit") -> bool:
        limits = self.thresholds
        often = fit.rate >= limits.down_rate or fit.cycles.bit_count() >= limits.min_cycles
        return fit.gain >= limits.evidence and fit.losses >= limits.min_losses and often

    def _ranked(
        self, tallies: Mapping[ProbePath, Tally], survival: Mapping[ProbePath, float], known: set[Element]
    ) -> list["_Fit"]:
        """How well each further element would explain what is left, best first; cables before switches where equal.

        One that lost no probe explains nothing, and is left out.
        """
        lossy = [path for path, tally in tallies.items() if tally.lost]
        paths: dict[Element, list[ProbePath]] = {
            element: [] for path in lossy for element in self.crossed(path) if element not in known
        }
        for path in tallies:
            for element in self.crossed(path):
                if element in paths:
                    paths[element].append(path)
        fits = [_fit(element, over, tallies, survival) for element, over in paths.items()]
        return sorted(fits, key=lambda fit: (-fit.gain, not fit.element.kind.endswith("link"), fit.element.name))

    def recovered(self, rate: float, cycles: Iterable[Tally]) -> bool:
        """Whether `cycles` (newest first; probes over the element) say "healthy again" rather than "loses at `rate`".

        The look back ends where either is evident: what was before the fault says nothing about now.
        """
        limits = self.thresholds
        ratio = 0.0
        bad, good = min(rate, MOST_LOSS), limits.background
        per_loss, per_answer = math.log(good / bad), math.log((1 - good) / (1 - bad))
        for tally in cycles:
            ratio += tally.lost * per_loss + (tally.sent - tally.lost) * per_answer
            if abs(ratio) >= limits.recovery:
                return ratio > 0
        return False


class _Fit(NamedTuple):
    """The best rate for one element, and what it gains."""

    element: Element
    paths: frozenset[ProbePath]
    rate: float
    gain: float
    losses: int
    cycles: int


def _fit(
    element: Element,
    over: Collection[ProbePath],
    tallies: Mapping[ProbePath, Tally],
    survival: Mapping[ProbePath, float],
    rates: Sequence[float] = RATES,
) -> _Fit:
    alike = Counter((tallies[path][:2], survival[path]) for path in over)  # most probes fared as most others

    def gain(rate: float) -> float:
        through = 1 - min(rate, MOST_LOSS)
        return sum(count * _gain(*tally, left, left * through) for (tally, left), count in alike.items())

    gains = {rate: gain(rate) for rate in rates}
    rate = max(gains, key=gains.__getitem__)
    losses = sum(tallies[path].lost for path in over)
    cycles = reduce(or_, (tallies[path].cycles for path in over), 0)
    return _Fit(element, frozenset(over), rate, gains[rate], losses, cycles)


def _explained(fit: _Fit, survival: dict[ProbePath, float]) -> None:
    """Take an element as at fault: its paths let so much less through."""
    for path in fit.paths:
        survival[path] *= 1 - min(fit.rate, MOST_LOSS)


def _gain(sent: int, lost: int, before: float, after: float) -> float:
    """Log-likelihood of so many probes lost if one survives with probability `after`, over that with `before`."""
    return lost * math.log((1 - after) / (1 - before)) + (sent - lost) * math.log(after / before)
