"""Chaos: many faults of cables and switches, drawn from the seed, that leave every pair of hosts an intact path.

The plan is made before anything runs, from the fabric and the seed alone: `mrclab run --dry-run` prints it.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import override

from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault, at_least_one
from mrclab.lab.faults.composite import CompositeFault, RunParts
from mrclab.lab.faults.probe import FaultProbe
from mrclab.lab.kinds import kind_of
from mrclab.lab.scenario.triggers import Trigger
from mrclab.lab.scenario.units import Duration, show_seconds
from mrclab.topo.model import Fabric

_TRIES = 30  # draws of a kind and a place for one fault, until one leaves enough paths
_MAX_FAULTS = 10_000  # faults of one chaos, on average
_LONGEST_STEP = 0.3  # longest step of a plan's time, seconds; a time line is advanced more often

DEFAULT_KINDS = (
    "link_down", "flap", "loss", "ev_loss", "silent_drop", "corrupt", "rate_limit", "delay", "jitter", "reorder",
    "lose_packets", "swap_cables", "transceiver", "nic_port_down", "plane_down", "switch_crash", "switch_freeze",
    "switch_reboot", "wrong_entry",
)  # fmt: skip
"""Kinds drawn where none are named. Fixed, order included, so that a seed draws the same plan whatever is installed."""
Planes = frozenset[int]  # planes whose cable to a host's NIC is broken
Uplinks = tuple[tuple[int, int], ...]  # (plane, uplink) of the broken uplinks of a T0 group, sorted

if TYPE_CHECKING:
    DrawnKind: TypeAlias = str
else:
    _drawn = (model for model in FAULTS if model.draws or model.draw.__func__ is not FaultBase.draw.__func__)
    _others = map(kind_of, _drawn)
    _kinds = (*DEFAULT_KINDS, *(kind for kind in _others if kind not in DEFAULT_KINDS))
    DrawnKind = Literal[_kinds]


class RunChaos(RunParts):
    """Inject and clear the faults of a plan."""

    fault: "Chaos"
    _clock = 0.0  # seconds of the plan's time

    @property
    @override
    def pending(self) -> bool:
        return not self.finished

    @override
    def advance(self, now: float) -> list[str]:
        """Apply the plan for now. While an action blocks, the plan's time is paused.

        Otherwise all faults due meanwhile would begin at once, and leave some hosts no path.
        """
        self._clock += min(max(0.0, now - self._began), _LONGEST_STEP)
        self._began = now  # the next step counts from here
        done = self._line.advance(self._clock, {})
        self.finished = not self._line.pending and self._clock >= self.fault.duration
        self.due = min(self._line.next_due(), now + max(0.0, self.fault.duration - self._clock))
        return done


@FAULTS.register
class Chaos(CompositeFault):
    """Random faults for a duration, each cleared after its own. Ends without being cleared."""

    kind: Literal["chaos"]
    duration: Duration = Field(gt=0, le=86_400, description="seconds until the last of its faults ends")
    every: Duration = Field(default=3.0, gt=0, description="mean seconds between two faults")
    shortest: Duration = Field(default=0.5, gt=0, description="least seconds that a fault lasts")
    longest: Duration = Field(default=5.0, gt=0, description="most seconds that a fault lasts")
    settle: Duration = Field(default=2.0, ge=0, description="seconds after a fault in which its paths count as broken")
    at_once: int = Field(default=3, ge=1, le=50, description="most faults at the same time")
    keep_paths: int = Field(default=1, ge=1, description="intact paths that every pair of hosts keeps")
    example: ClassVar = {
        "duration": 1.0, "every": 0.2, "shortest": 0.1, "longest": 0.3, "settle": 0,
        "kinds": ["link_down", "loss", "delay"],
    }  # fmt: skip
    kinds: Annotated[tuple[DrawnKind, ...], AfterValidator(at_least_one)] = DEFAULT_KINDS
    action_class: ClassVar = RunChaos

    @model_validator(mode="after")
    def _in_order(self) -> "Chaos":
        if self.duration / self.every > _MAX_FAULTS:
            count = self.duration / self.every
            raise ValueError(f"this plans some {count:.0f} faults, of {_MAX_FAULTS} at most; raise every")
        if self.shortest > self.longest:
            shortest, longest = show_seconds(self.shortest), show_seconds(self.longest)
            raise ValueError(f"shortest, {shortest}, exceeds longest, {longest}; lower it")
        if self.shortest > self.duration:
            shortest, whole = show_seconds(self.shortest), show_seconds(self.duration)
            raise ValueError(f"no fault of {shortest} fits into {whole}; lower shortest")
        return self

    @override
    def text(self, fabric: Fabric) -> str:
        kinds = "every kind" if self.kinds == DEFAULT_KINDS else ", ".join(self.kinds)
        return f"chaos of {kinds} for {show_seconds(self.duration)}, a fault about every {show_seconds(self.every)}"

    @override
    def parts(self, fabric: Fabric, seed: int) -> list[FaultBase]:
        return list(self._draw(fabric, random.Random(f"{seed}/{self.name}")))

    def _draw(self, fabric: Fabric, draw: random.Random) -> Iterator[FaultBase]:
        paths = IntactPaths(fabric)
        active: list[tuple[float, frozenset[str]]] = []  # until when, and which cables
        now, number = 0.0, 0
        while (now := now + draw.expovariate(1 / self.every)) + self.shortest <= self.duration:
            lasts = min(draw.uniform(self.shortest, self.longest), self.duration - now)
            active = [entry for entry in active if entry[0] > now]
            if sum(until - self.settle > now for until, _ in active) >= self.at_once:
                continue
            broken = frozenset().union(*(links for _, links in active))
            for _ in range(_TRIES):
                fault = self._draw_fault(fabric, draw, number + 1, now, lasts)
                links = frozenset(fault.links(fabric))
                if links.isdisjoint(broken) and paths.least(broken | links) >= self.keep_paths:
                    number += 1
                    active.append((now + lasts + self.settle, links))
                    yield fault
                    break

    def _draw_fault(self, fabric: Fabric, draw: random.Random, number: int, at: float, lasts: float) -> FaultBase:
        digits = max(3, 1 - math.floor(math.log10(self.shortest)))  # of a second, so that a plan is short to read
        at, lasts = round(at, digits), round(lasts, digits)
        kind = draw.choice(self.kinds)
        model = FAULTS[kind]
        fields = {**(model.draw(draw, fabric) or {}), "at": Trigger(seconds=at)}
        if issubclass(model, LastingFault):
            fields["until"] = Trigger(seconds=round(at + lasts, digits))
        else:
            fields["takes"] = lasts
        return self.part(kind, fabric, number, **fields)

    @override
    def self_test(self, probe: FaultProbe) -> None:
        probe.inject()
        probe.wait_until_over()
        begun, ended = probe.records("fault.begin"), probe.records("fault.end")
        probe.expect(len(begun) > 1 and len(begun) == len(ended), f"{len(begun)} faults began, {len(ended)} ended")


class IntactPaths:
    """Counts intact paths. Hosts are grouped by the planes of broken NIC cables and by broken uplinks of T0s."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._planes = range(1, fabric.planes + 1)

    def least(self, broken: Iterable[str]) -> int:
        """Count intact paths of the pair of hosts with the fewest while these cables are broken; 0 without a pair."""
        nics, uplinks = self._broken(broken)
        found: list[int] = []
        groups: dict[tuple[Uplinks, Planes], set[int]] = defaultdict(set)  # class of hosts → groups that have some
        for group in range(1, self._fabric.spec.t0s + 1):
            counts = Counter(nics[group].values())
            counts[frozenset()] = self._fabric.spec.hosts_per_t0 - len(nics[group])
            for planes in +counts:
                groups[tuple(sorted(uplinks[group])), planes].add(group)
            for one, other in combinations_with_replacement(+counts, 2):
                if one != other or counts[one] > 1:
                    found.append(len(self._planes) - len(one | other))
        for first, second in combinations_with_replacement(groups, 2):
            if len(groups[first] | groups[second]) > 1:
                found.append(self._between(first, second))
        return min(found, default=0)

    def _broken(self, links: Iterable[str]) -> tuple[dict[int, dict[str, Planes]], dict[int, set[tuple[int, int]]]]:
        """Return by group the planes that hosts have lost, by host, and the (plane, uplink) of broken uplinks."""
        nics: dict[int, dict[str, Planes]] = defaultdict(dict)
        uplinks: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for lower, plane in ((link.a, link.plane) for link in map(self._fabric.link, links)):
            if self._fabric.has_host(lower.node):
                lost = nics[self._fabric.host(lower.node).group]
                lost[lower.node] = lost.get(lower.node, frozenset()) | {plane}
            elif (switch := self._fabric.switch(lower.node)).tier == "t0":
                uplinks[switch.number].add((plane, lower.number - self._fabric.spec.hosts_per_t0))
        return nics, uplinks

    def _between(self, one: tuple[Uplinks, Planes], other: tuple[Uplinks, Planes]) -> int:
        """Count the intact paths between two hosts of different groups."""
        planes = [plane for plane in self._planes if plane not in one[1] | other[1]]
        broken = {(plane, uplink) for plane, uplink in (*one[0], *other[0]) if plane in planes}
        return len(planes) * self._fabric.uplinks - len(broken)
