"""Fault localisation: the elements that best explain the lost probes (Clustermapper's inference). Pure.

Every self-probe crosses a known set of elements (arXiv 2605.04333 §3): `locator|T0|self` a NIC–T0 cable and a T0,
`locator|T0|T1|T0|self` a T0–T1 cable and a T1 besides. Losses are explained by as few elements as possible: the one
whose fault makes the observed losses most likely is taken first, then the next, as long as each adds enough evidence.
Evidence is a log-likelihood ratio in nats against the network that the elements found so far would give.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Literal, NamedTuple

from mrclab.controller.health.elements import Element, link_element
from mrclab.topo.model import Fabric

RATES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02)  # loss rates of an element that are tried
MAX_LOSS = 0.98  # a dead element may show a stray reply: a probe counted late, or sent before it failed


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


class Thresholds(NamedTuple):
    """Thresholds of evidence. Counts are of probe cycles."""

    background: float = 0.001  # loss of a healthy path
    evidence: float = 12.0  # nats that an element must add: odds of 160,000 to 1
    margin: float = 4.0  # nats ahead of the next explanation: odds of 55 to 1; undecided otherwise
    min_losses: int = 3
    min_cycles: int = 3  # in which a lossy element must have lost probes: one stall of a machine is not a loss rate
    windows: tuple[int, ...] = (1, 2, 4, 10, 40, 160)  # short windows show dead elements, long ones lossy ones
    recovery: float = 6.0  # nats for "healthy again" against the fault's rate
    down_rate: float = 0.9


class LocalisedFault(NamedTuple):
    """One element at fault. `rate`: share of probes it loses, `evidence`: in nats.

    `alternatives` explain the losses equally well.
    """

    element: Element
    state: Literal["down", "lossy"]
    rate: float
    evidence: float
    alternatives: tuple[Element, ...] = ()


class CycleWindow(NamedTuple):
    """Observations over some cycles back from now: paths that lost probes, and all probed paths over an element."""

    lossy: Mapping[ProbePath, Tally]
    over: Callable[[Element], Iterable[tuple[ProbePath, Tally]]]


class Localiser:
    """Explains tallies over the paths of one fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self.thresholds = Thresholds()
        self._fabric = fabric
        self._near: dict[tuple[str, int], tuple[Element, Element]] = {}  # NIC–T0 cable and T0 by host and plane
        self._far: dict[tuple[str, int], tuple[Element, Element]] = {}  # T0–T1 cable and T1 by T0 and uplink

    def crossed(self, path: ProbePath) -> tuple[Element, ...]:
        """The elements that a self-probe depends on."""
        near = self._near.get(path[:2])
        if near is None:
            port = self._fabric.host(path.host).port(path.plane)
            near = link_element(self._fabric.link(port.link)), Element("t0", port.peer.node)
            self._near[path[:2]] = near
        if not path.uplink:
            return near
        t0 = near[1].name
        far = self._far.get((t0, path.uplink))
        if far is None:
            t1 = f"t1-p{path.plane}-{path.uplink}"
            far = self._far[t0, path.uplink] = link_element(self._fabric.link(f"{t0}/{t1}")), Element("t1", t1)
        return near + far

    def verdicts(self, windows: Sequence[CycleWindow]) -> tuple[LocalisedFault, ...]:
        """Elements at fault, most evident first. `windows` cover ever more of the newest cycles.

        Elements found by a short window are left out of the longer ones, where older probes would dilute them.
        """
        found: dict[Element, LocalisedFault] = {}
        for window in windows:
            known = set(found)
            rest = {p: t for p, t in window.lossy.items() if known.isdisjoint(self.crossed(p))}
            for plane in sorted({path.plane for path in rest}):
                inside = {path: tally for path, tally in rest.items() if path.plane == plane}
                found.update((verdict.element, verdict) for verdict in self._explain(inside, window, known))
        return tuple(sorted(found.values(), key=lambda verdict: -verdict.evidence))

    def _explain(
        self, tallies: Mapping[ProbePath, Tally], window: CycleWindow, known: Collection[Element]
    ) -> list[LocalisedFault]:
        """The elements of one plane that together explain its lossy `tallies`, those `known` apart."""
        limits = self.thresholds
        delivery = dict.fromkeys(tallies, 1 - limits.background)
        suspects = self._suspects(tallies, window, known)
        verdicts: list[LocalisedFault] = []
        while True:
            ranked = _ranked(suspects, {verdict.element for verdict in verdicts}, tallies, delivery)
            if not ranked or not self._suffices(ranked[0]):
                return verdicts
            best = ranked[0]
            chosen = [best]
            if best.rate < limits.down_rate:
                # Two dead cables of one T0 resemble a T0 that loses half its packets; the cables explain which half.
                dead = self._dead(tallies, delivery, ranked[1:])
                lead = sum(fit.gain for fit in dead) - limits.evidence * (len(dead) - 1) - best.gain
                if len(dead) > 1 and lead > 0:
                    chosen = dead
                if len(dead) > 1 and abs(lead) < limits.margin:
                    return verdicts
            if chosen == [best] and self._is_contested(best, ranked):
                return verdicts
            for fit in chosen:
                state: Literal["down", "lossy"] = "down" if fit.rate >= limits.down_rate else "lossy"
                alternatives = tuple(o.element for o in ranked if o is not fit and o.suspect.is_like(fit.suspect))
                verdicts.append(LocalisedFault(fit.element, state, fit.rate, fit.gain, alternatives))
                _scale_delivery(fit, delivery)

    def _suspects(
        self, tallies: Mapping[ProbePath, Tally], window: CycleWindow, known: Collection[Element]
    ) -> list["_Suspect"]:
        """Each element that lost a probe; one that lost none explains nothing."""
        lossy: dict[Element, list[ProbePath]] = {}
        for path in tallies:
            for element in self.crossed(path):
                lossy.setdefault(element, []).append(path)
        explained = {path for element in known for path, _ in window.over(element)}
        found = []
        for element, paths in lossy.items():
            over = [(path, tally) for path, tally in window.over(element) if path not in explained]
            answered = sum(tally.sent - tally.lost for _, tally in over)
            losses = sum(tallies[path].lost for path in paths)
            cycles = reduce(or_, (tallies[path].cycles for path in paths), 0)
            digest = hash(frozenset(path for path, _ in over))
            found.append(_Suspect(element, frozenset(paths), tuple(paths), len(over), digest, answered, losses, cycles))
        return found

    def _is_contested(self, best: "_Fit", ranked: Sequence["_Fit"]) -> bool:
        """Return True if another element explains the same losses nearly as well."""
        # An element that shares no lost probe with the best one is another fault, not another explanation.
        mine = best.suspect
        others = [fit for fit in ranked[1:] if not fit.suspect.is_like(mine) and fit.suspect.lossy & mine.lossy]
        return bool(others) and best.gain - others[0].gain < self.thresholds.margin

    def _dead(
        self, tallies: Mapping[ProbePath, Tally], delivery: Mapping[ProbePath, float], ranked: Sequence["_Fit"]
    ) -> list["_Fit"]:
        """Return the dead elements that together explain the losses, the most evident first."""
        left = dict(delivery)
        found: list[_Fit] = []
        rest = [fit.suspect for fit in ranked]
        while True:
            fits = [_fit(suspect, tallies, left, RATES[:1]) for suspect in rest]
            best = max(fits, key=lambda fit: fit.gain, default=None)
            if best is None or best.gain < self.thresholds.evidence:
                return found
            found.append(best)
            rest.remove(best.suspect)
            _scale_delivery(best, left)

    def _suffices(self, fit: "_Fit") -> bool:
        limits = self.thresholds
        often = fit.rate >= limits.down_rate or fit.suspect.cycles.bit_count() >= limits.min_cycles
        return fit.gain >= limits.evidence and fit.suspect.losses >= limits.min_losses and often

    def recovered(self, rate: float, cycles: Iterable[Tally]) -> bool:
        """Return True if `cycles` (newest first; probes over the element) fit a healthy one better than loss at `rate`.

        The look back ends where either is evident: cycles before the fault say nothing about now.
        """
        limits = self.thresholds
        ratio = 0.0
        bad, good = min(rate, MAX_LOSS), limits.background
        per_loss, per_answer = math.log(good / bad), math.log((1 - good) / (1 - bad))
        for tally in cycles:
            ratio += tally.lost * per_loss + (tally.sent - tally.lost) * per_answer
            if abs(ratio) >= limits.recovery:
                return ratio > 0
        return False


@dataclass(frozen=True, eq=False)
class _Suspect:
    """An element over which probes were lost, and statistics of its probes."""

    element: Element
    lossy: frozenset[ProbePath]
    in_order: tuple[ProbePath, ...]  # the same, always in one order
    paths: int
    digest: int  # of all paths, lossy or not
    answered: int
    losses: int
    cycles: int

    def is_like(self, other: "_Suspect") -> bool:
        """Return True if the very same probes crossed both."""
        return (self.paths, self.digest, self.lossy) == (other.paths, other.digest, other.lossy)


class _Fit(NamedTuple):
    """The loss rate that fits one element best, and its gain in log-likelihood."""

    suspect: _Suspect
    rate: float
    gain: float

    @property
    def element(self) -> Element:
        return self.suspect.element


def _ranked(
    suspects: Iterable[_Suspect],
    known: Collection[Element],
    tallies: Mapping[ProbePath, Tally],
    delivery: Mapping[ProbePath, float],
) -> list[_Fit]:
    """Rank elements by how well they explain the remaining losses, best first; cables before switches on ties."""
    fits = [_fit(suspect, tallies, delivery) for suspect in suspects if suspect.element not in known]
    return sorted(fits, key=lambda fit: (-fit.gain, not fit.element.kind.endswith("link"), fit.element.name))


def _fit(
    suspect: _Suspect,
    tallies: Mapping[ProbePath, Tally],
    delivery: Mapping[ProbePath, float],
    rates: Sequence[float] = RATES,
) -> _Fit:
    """The log-likelihood ratio of the probes over an element at the best of `rates`.

    It is against `delivery`, by path the share of probes that the elements found so far let through.
    """
    # Most paths are alike: one logarithm for all of them.
    alike = Counter((tallies[path].lost, delivery[path]) for path in suspect.in_order)

    def gain(rate: float) -> float:
        through = 1 - min(rate, MAX_LOSS)
        lost = sum(count * n * math.log((1 - before * through) / (1 - before)) for (n, before), count in alike.items())
        return lost + suspect.answered * math.log(through)

    gains = {rate: gain(rate) for rate in rates}
    rate = max(gains, key=gains.__getitem__)
    return _Fit(suspect, rate, gains[rate])


def _scale_delivery(fit: _Fit, delivery: dict[ProbePath, float]) -> None:
    """Treat an element as faulty: scale the delivery rate of its paths accordingly."""
    for path in fit.suspect.lossy:
        delivery[path] *= 1 - min(fit.rate, MAX_LOSS)
