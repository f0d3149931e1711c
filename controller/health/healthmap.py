"""The state of every link as the hosts' self-probes show it: reports in, map and verdicts out. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mrclab.controller.errors import ControllerError
from mrclab.controller.health.elements import Element
from mrclab.controller.health.localise import CycleWindow, LocalisedFault, Localiser, ProbePath, Tally
from mrclab.topo.model import Fabric

LOSS_DIGITS = 4
MAX_LINKS = 20_000  # of which each is shown
MAX_PROBES = 10_000  # over one path in one cycle; a report of more is refused
MAX_RTT = 3600.0  # seconds


class ReportError(ControllerError):
    """A report that cannot be right: of an unknown host, plane or uplink, or with impossible numbers."""


class Cycle(NamedTuple):
    """One path in one cycle. `rtt` in seconds, None where every probe was lost; `number`: the evaluation that used it
    first."""

    sent: int
    lost: int
    rtt: float | None = None
    number: int = 0


class _Probed:
    """Reports on one path, oldest cycle first."""

    __slots__ = ("cycles", "lossy", "path")

    def __init__(self, path: ProbePath) -> None:
        self.path = path
        self.cycles: list[Cycle] = []
        self.lossy = False  # whether a probe of these was lost

    def tally(self, window: int) -> Tally:
        """Sum over the newest cycles."""
        newest = self.cycles[-window:]
        sent = sum([cycle.sent for cycle in newest])
        if not self.lossy:
            return Tally(sent, 0)
        where = sum(1 << age for age, cycle in enumerate(reversed(newest)) if cycle.lost)
        return Tally(sent, sum(cycle.lost for cycle in newest), where)


class HealthMap:
    """Recent reports of all hosts, and the verdicts from them."""

    def __init__(self, fabric: Fabric) -> None:
        self.localiser = Localiser(fabric)
        self._fabric = fabric
        self._keep = max(self.localiser.thresholds.windows)
        self._probed: dict[ProbePath, _Probed] = {}
        self._over: dict[Element, list[_Probed]] = {}
        self._lossy: dict[ProbePath, _Probed] = {}  # where a probe that is still remembered was lost
        self._last_loss: dict[int, int] = {}  # plane → evaluation before which a probe was lost there
        self._evaluations = 0
        self._verdicts: tuple[LocalisedFault, ...] = ()
        self._suspected: set[Element] = set()
        self._worst: dict[Element, float] = {}  # highest rate seen since an element became suspect

    @property
    def verdicts(self) -> tuple[LocalisedFault, ...]:
        """Elements at fault as of the last `judge`."""
        return self._verdicts

    def report(self, host: str, probes: object) -> None:
        """Take one cycle of one host: `[{plane, uplink, sent, lost, rtt}]`. ReportError leaves the map as it was."""
        if not self._fabric.has_host(host):
            raise ReportError(f"report of unknown host {host!r} ignored")
        if not isinstance(probes, list):
            raise ReportError(f"report of {host} ignored: probes must be a list")
        for path, cycle in [self._parsed(host, probe) for probe in probes]:
            probed = self._probed.get(path) or self._first_seen(path)
            probed.cycles.append(cycle)
            if len(probed.cycles) > self._keep:
                self._keep_newest(probed)
            if cycle.lost:
                probed.lossy = True
                self._lossy[path] = probed
                self._last_loss[path.plane] = self._evaluations

    def _keep_newest(self, probed: _Probed) -> None:
        del probed.cycles[: -self._keep]
        if probed.lossy and not any(cycle.lost for cycle in probed.cycles):
            probed.lossy = False
            del self._lossy[probed.path]

    def _first_seen(self, path: ProbePath) -> _Probed:
        made = self._probed[path] = _Probed(path)
        for element in self.localiser.crossed(path):
            self._over.setdefault(element, []).append(made)
        return made

    def judge(self) -> tuple[LocalisedFault, ...]:
        """Judge all reports, once per cycle; an element is at fault when two judgements in a row agree.

        Losses of recovered elements are dropped, so that they do not count against them later.
        """
        self._evaluations += 1
        suspects = self._suspects()
        if self._forget_ended(suspects):
            suspects = self._suspects()
        self._worst = {s.element: max(s.rate, self._worst.get(s.element, 0.0)) for s in suspects}
        healthy = [suspect for suspect in suspects if self._has_recovered(suspect, suspects)]
        for suspect in healthy:
            self._forget_losses(suspect.element)
        remain = [suspect for suspect in suspects if suspect not in healthy]
        # In the cycle in which a fault begins, hosts that probed before it contradict those that probed after it.
        self._verdicts = tuple(suspect for suspect in remain if suspect.element in self._suspected)
        self._suspected = {suspect.element for suspect in remain}
        return self._verdicts

    def _forget_ended(self, suspects: Sequence[LocalisedFault]) -> bool:
        """Forget losses over elements that were down and are no longer suspected; return True if there were any.

        As a switch comes back, those of its cables that were not probed since look dead, one by one: they are not.
        One that is bad by itself loses probes again. Losses that a larger element explains now are kept.
        """
        now = {suspect.element for suspect in suspects}
        down = [
            verdict.element
            for verdict in self._verdicts
            if verdict.element not in now
            and self._worst[verdict.element] >= self.localiser.thresholds.down_rate
            and not self._is_covered(now, verdict.element)
        ]
        for element in down:
            self._forget_losses(element)
        return bool(down)

    def _is_covered(self, suspects: set[Element], element: Element) -> bool:
        """Return True if one of the suspects was on all paths over an element."""
        over = [self.localiser.crossed(probed.path) for probed in self._over[element]]
        return any(all(suspect in crossed for crossed in over) for suspect in suspects.intersection(over[0]))

    def links(self) -> dict[str, dict[str, Any]]:
        """State of every link: up, lossy, down or unknown; loss and mean RTT of the probes that name it.

        Of very many links only those are shown whose probes were not all answered.
        """
        many = len(self._fabric.links) > MAX_LINKS
        at_fault = {verdict.element: verdict for verdict in self._verdicts}
        named = {self._named(path): None for path in sorted(self._lossy if many else self._probed)}
        result = {link.name: self._link_row(link, at_fault.get(link)) for link in named}
        return result if many else {link.name: result.get(link.name) or _unknown() for link in self._fabric.links}

    def _named(self, path: ProbePath) -> Element:
        """The cable that a probe is about."""
        elements = self.localiser.crossed(path)
        return elements[2] if path.uplink else elements[0]

    def _link_row(self, link: Element, verdict: LocalisedFault | None) -> dict[str, Any]:
        probed = [known.cycles for known in self._over[link] if self._named(known.path) == link]
        sent = sum(cycle.sent for cycles in probed for cycle in cycles)
        if not sent:
            return _unknown()
        lost = sum(cycle.lost for cycles in probed for cycle in cycles)
        rtts = [cycle.rtt for cycles in probed for cycle in cycles if cycle.rtt is not None]
        return {
            "state": verdict.state if verdict is not None else "up",
            "probes": sent,
            "loss": round(lost / sent, LOSS_DIGITS),
            "rtt": round(sum(rtts) / len(rtts), 6) if rtts else None,
        }

    # --- inside -----------------------------------------------------------------------------------------------------

    def _parsed(self, host: str, probe: object) -> tuple[ProbePath, Cycle]:
        if not isinstance(probe, Mapping):
            raise ReportError(f"report of {host} ignored: a probe must be an object")
        plane, uplink, sent, lost = (_number(host, probe, name) for name in ("plane", "uplink", "sent", "lost"))
        rtt = probe.get("rtt")
        if not (1 <= plane <= self._fabric.planes and 0 <= uplink <= self._fabric.most_paths):
            raise ReportError(f"report of {host} ignored: there is no plane {plane}, uplink {uplink}")
        if not 0 <= lost <= sent <= MAX_PROBES or not (
            rtt is None or (isinstance(rtt, (int, float)) and 0 <= rtt <= MAX_RTT)
        ):
            raise ReportError(f"report of {host} ignored: {lost} lost of {sent} sent with RTT {rtt} is impossible")
        return ProbePath(host, plane, uplink), Cycle(sent, lost, None if rtt is None else float(rtt), self._evaluations)

    def _suspects(self) -> tuple[LocalisedFault, ...]:
        """Return elements that explain the recent losses in planes that lost probes."""
        recent = {plane for plane, number in self._last_loss.items() if self._evaluations - number <= self._keep}
        lossy = [probed for path, probed in self._lossy.items() if path.plane in recent]
        windows = [self._window(cycles, lossy) for cycles in self.localiser.thresholds.windows]
        return self.localiser.verdicts(windows) if lossy else ()

    def _window(self, cycles: int, lossy: Iterable[_Probed]) -> CycleWindow:
        """Return the newest cycles of each path."""
        tallies = {probed.path: probed.tally(cycles) for probed in lossy}
        return CycleWindow(
            {path: tally for path, tally in tallies.items() if tally.lost},
            lambda element: ((probed.path, probed.tally(cycles)) for probed in self._over[element]),
        )

    def _has_recovered(self, verdict: LocalisedFault, verdicts: Sequence[LocalisedFault]) -> bool:
        others = {other.element for other in verdicts if other is not verdict}
        worst = self._worst[verdict.element]
        was_dead = worst >= self.localiser.thresholds.down_rate
        return self.localiser.recovered(
            worst if was_dead else verdict.rate, self._newest_first(verdict.element, others)
        )

    def _newest_first(self, element: Element, avoid: set[Element]) -> Iterator[Tally]:
        """By cycle, newest first: the probes that crossed `element` and no other faulty element."""
        by_cycle: dict[int, tuple[int, int]] = {}
        for probed in self._over[element]:
            if avoid.isdisjoint(self.localiser.crossed(probed.path)):
                for cycle in probed.cycles:
                    sent, lost = by_cycle.get(cycle.number, (0, 0))
                    by_cycle[cycle.number] = sent + cycle.sent, lost + cycle.lost
        return (Tally(*by_cycle[number]) for number in sorted(by_cycle, reverse=True))

    def _forget_losses(self, element: Element) -> None:
        for probed in self._over[element]:
            if probed.lossy:
                probed.cycles = [cycle for cycle in probed.cycles if not cycle.lost]
                probed.lossy = False
                del self._lossy[probed.path]


def _number(host: str, probe: Mapping[str, object], name: str) -> int:
    value = probe.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ReportError(f"report of {host} ignored: {name} is {value!r} and not a whole number")
    return value


def _unknown() -> dict[str, Any]:
    return {"state": "unknown", "probes": 0, "loss": None, "rtt": None}
