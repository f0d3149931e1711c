"""The state of every link as the hosts' self-probes show it: reports in, map and verdicts out. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from mrclab.controller.errors import ControllerError
from mrclab.controller.health.elements import Element
from mrclab.controller.health.localise import LocalisedFault, Localiser, ProbePath, Tally, Thresholds
from mrclab.topo.model import Fabric

LOSS_DIGITS = 4
MOST_LINKS = 20_000  # of which each is told
MOST_PROBES = 10_000  # over one path in one cycle; more is no honest report
MOST_RTT = 3600.0  # seconds


class ReportError(ControllerError):
    """A report that cannot be right: of an unknown host, plane or uplink, or with impossible numbers."""


class Cycle(NamedTuple):
    """One path in one cycle. `rtt` in seconds, None where nothing came back."""

    sent: int
    lost: int
    rtt: float | None = None


class HealthMap:
    """What all hosts reported lately, and what follows from it."""

    def __init__(self, fabric: Fabric, thresholds: Thresholds | None = None) -> None:
        self.localiser = Localiser(fabric, thresholds)
        self._fabric = fabric
        self._keep = max(self.localiser.thresholds.windows)
        self._history: dict[ProbePath, deque[Cycle]] = {}
        self._since_loss: dict[int, int] = {}  # plane → looks since a probe was lost there
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
            raise ReportError(f"report of {host} ignored: probes is no list")
        for path, cycle in [self._parsed(host, probe) for probe in probes]:
            self._history.setdefault(path, deque(maxlen=self._keep)).appendleft(cycle)
            if cycle.lost:
                self._since_loss[path.plane] = 0

    def judge(self) -> tuple[LocalisedFault, ...]:
        """Look at all that was reported, once per cycle; an element is at fault when two looks in a row say so.

        Losses of what has recovered are forgotten, so that its past does not count against it.
        """
        suspects = self.localiser.verdicts(self._tallies())
        self._worst = {s.element: max(s.rate, self._worst.get(s.element, 0.0)) for s in suspects}
        healthy = [suspect for suspect in suspects if self._has_recovered(suspect, suspects)]
        for suspect in healthy:
            self._forget_losses(suspect.element)
        remain = [suspect for suspect in suspects if suspect not in healthy]
        # In the cycle in which a fault begins, hosts that probed before it contradict those that probed after it.
        self._verdicts = tuple(suspect for suspect in remain if suspect.element in self._suspected)
        self._suspected = {suspect.element for suspect in remain}
        return self._verdicts

    def links(self) -> dict[str, dict[str, Any]]:
        """State of every link: up, lossy, down or unknown; loss and mean RTT of the probes that name it.

        Of very many links only those are told whose probes were not all answered.
        """
        at_fault = {verdict.element: verdict for verdict in self._verdicts}
        result: dict[str, dict[str, Any]] = {}
        for path, cycles in sorted(self._history.items()):
            elements = self.localiser.crossed(path)
            link = elements[2] if path.uplink else elements[0]
            entry = result.setdefault(link.name, {"state": "up", "probes": 0, "lost": 0, "rtts": []})
            entry["probes"] += sum(cycle.sent for cycle in cycles)
            entry["lost"] += sum(cycle.lost for cycle in cycles)
            entry["rtts"] += [cycle.rtt for cycle in cycles if cycle.rtt is not None]
            if link in at_fault:
                entry["state"] = at_fault[link].state
        if len(self._fabric.links) > MOST_LINKS:
            return {name: _told(entry) for name, entry in result.items() if entry["lost"]}
        return {link.name: _told(result.get(link.name)) for link in self._fabric.links}

    # --- inside -----------------------------------------------------------------------------------------------------

    def _parsed(self, host: str, probe: object) -> tuple[ProbePath, Cycle]:
        if not isinstance(probe, Mapping):
            raise ReportError(f"report of {host} ignored: a probe is no object")
        plane, uplink, sent, lost = (_number(host, probe, name) for name in ("plane", "uplink", "sent", "lost"))
        rtt = probe.get("rtt")
        if not (1 <= plane <= self._fabric.planes and 0 <= uplink <= self._fabric.uplinks):
            raise ReportError(f"report of {host} ignored: there is no plane {plane}, uplink {uplink}")
        if not 0 <= lost <= sent <= MOST_PROBES or not (
            rtt is None or (isinstance(rtt, (int, float)) and 0 <= rtt <= MOST_RTT)
        ):
            raise ReportError(f"report of {host} ignored: {lost} lost of {sent} sent with RTT {rtt} is impossible")
        return ProbePath(host, plane, uplink), Cycle(sent, lost, None if rtt is None else float(rtt))

    def _tallies(self) -> list[dict[ProbePath, Tally]]:
        """Per window the tallies of all paths in planes that lost probes lately; nothing follows from the others."""
        windows = self.localiser.thresholds.windows
        result: list[dict[ProbePath, Tally]] = [{} for _ in windows]
        lossy = {plane for plane, age in self._since_loss.items() if age <= self._keep}
        self._since_loss = {plane: self._since_loss[plane] + 1 for plane in lossy}
        for path, cycles in self._history.items():
            if path.plane in lossy:
                for told, tally in zip(result, _running(cycles, windows), strict=True):
                    told[path] = tally
        return result

    def _has_recovered(self, verdict: LocalisedFault, verdicts: Sequence[LocalisedFault]) -> bool:
        others = {other.element for other in verdicts if other is not verdict}
        worst = self._worst[verdict.element]
        was_dead = worst >= self.localiser.thresholds.down_rate
        return self.localiser.recovered(worst if was_dead else verdict.rate, self._over(verdict.element, others))

    def _over(self, element: Element, avoid: set[Element]) -> Iterator[Tally]:
        """Cycle by cycle, newest first, the probes that crossed `element` and nothing else that is at fault."""
        columns = [
            cycles
            for path, cycles in self._history.items()
            if element in (over := self.localiser.crossed(path)) and not avoid.intersection(over)
        ]
        for row in zip_longest(*columns):
            there = [cycle for cycle in row if cycle is not None]
            yield Tally(sum(cycle.sent for cycle in there), sum(cycle.lost for cycle in there))

    def _forget_losses(self, element: Element) -> None:
        for path, cycles in self._history.items():
            if element in self.localiser.crossed(path):
                kept = [cycle for cycle in cycles if not cycle.lost]
                cycles.clear()
                cycles.extend(kept)


def _number(host: str, probe: Mapping[str, object], name: str) -> int:
    value = probe.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ReportError(f"report of {host} ignored: {name} is {value!r} and not a whole number")
    return value


def _running(cycles: Iterable[Cycle], windows: Sequence[int]) -> Iterator[Tally]:
    """Tallies over the newest 1, 2, 4… cycles of one path, as `windows` (rising) say; the newest comes first."""
    sent = lost = where = done = 0
    newest = iter(cycles)
    for window in windows:
        for age, cycle in enumerate(islice(newest, window - done), start=done):
            sent += cycle.sent
            lost += cycle.lost
            where |= bool(cycle.lost) << age
        done = window
        yield Tally(sent, lost, where)


def _told(entry: dict[str, Any] | None) -> dict[str, Any]:
    if entry is None or not entry["probes"]:
        return {"state": "unknown", "probes": 0, "loss": None, "rtt": None}
    rtts = entry["rtts"]
    return {
        "state": entry["state"],
        "probes": entry["probes"],
        "loss": round(entry["lost"] / entry["probes"], LOSS_DIGITS),
        "rtt": round(sum(rtts) / len(rtts), 6) if rtts else None,
    }
