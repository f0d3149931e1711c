"""Faults that redirect frames: through a relay that delays or reorders, or to another cable's far end."""

import random
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from mrclab.lab.faults.action import Counters, FaultAction, Impaired
from mrclab.lab.faults.base import FAULTS, LastingFault
from mrclab.lab.faults.families import PacketFault, Share, between, frames_of, random_link
from mrclab.lab.faults.probe import CABLE, FRAMES, OTHER, FaultProbe
from mrclab.lab.scenario.names import CableName
from mrclab.lab.scenario.units import show_seconds
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.input.quantities import Delay as DelayTime
from mrclab.topo.model import Fabric

_UP: dict[str, Any] = {"link": CABLE, "direction": "up"}


class Relay(FaultAction["RelayedFault"]):
    """Send the frames of a cable through a relay."""

    _impaired: Impaired | None = None

    @override
    def inject(self) -> None:
        fault, seed = self.fault, random.Random(f"{self.context.seed}/{self.fault.name}").getrandbits(32)
        self._impaired = self.context.injector.impair(
            fault.link, fault.impairment, direction=fault.direction, seed=seed
        )

    @override
    def clear(self) -> Counters:
        """Frames go straight again; returns frames that came in, were lost, and could not be sent on."""
        if self._impaired is None:
            return {}
        received, lost, sent = self._impaired.clear()
        return {"seen": received, "dropped": lost, "refused": received - sent}


class RelayedFault(PacketFault):
    """A fault for which frames pass through a relay, of which there is one for each cable and direction."""

    action_class: ClassVar = Relay

    @property
    def impairment(self) -> Impairment:
        """The relay's treatment of frames."""
        raise NotImplementedError

    @override
    def claims(self, fabric: Fabric) -> frozenset[str]:
        (link,) = self.links(fabric)
        return frames_of(link, self.direction)


def _random_wait(draw: random.Random, fabric: Fabric) -> float:
    """A delay of some links' worth, seconds."""
    return round(draw.uniform(1, 6) * max(fabric.spec.link.delay, 0.001), 4)


def _expect_late(probe: FaultProbe, least: float, *, in_order: bool = True) -> None:
    """Frames take at least `least` seconds, arrive in order or not, and go straight again afterwards."""
    probe.inject()
    arrived, seconds = probe.cross_late()
    probe.expect(seconds >= least, f"frames came after {seconds * 1000:.0f} ms instead of {least * 1000:.0f}")
    right = arrived == FRAMES if in_order else arrived != FRAMES[: len(arrived)]
    probe.expect(right, f"frames came as {arrived}")
    probe.expect(probe.cross()[0] == FRAMES, "frames are lost or late after the relay went")


@FAULTS.register
class Delay(RelayedFault):
    """Packets are delayed."""

    kind: Literal["delay"]
    delay: DelayTime = Field(gt=0, le=60)
    example: ClassVar = {"delay": 0.03, **_UP}
    draws: ClassVar = {"link": random_link, "delay": _random_wait}

    @property
    @override
    def impairment(self) -> Impairment:
        return Impairment(delay=self.delay)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.where} delays packets by {show_seconds(self.delay)}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_late(probe, 0.03)


@FAULTS.register
class Jitter(RelayedFault):
    """Packets are delayed by a varying time; they stay in order unless `ordered` is false."""

    kind: Literal["jitter"]
    delay: DelayTime = Field(gt=0, le=60, description="mean")
    jitter: DelayTime = Field(gt=0, le=60, description="greatest difference from it; drawn evenly, from the seed")
    ordered: bool = True
    example: ClassVar = {"delay": 0.03, "jitter": 0.01, **_UP}

    @model_validator(mode="after")
    def _not_before_sent(self) -> "Jitter":
        if self.jitter > self.delay:
            jitter, delay = show_seconds(self.jitter), show_seconds(self.delay)
            raise ValueError(f"jitter, {jitter}, exceeds delay, {delay}; raise delay or lower jitter")
        return self

    @property
    @override
    def impairment(self) -> Impairment:
        return Impairment(delay=self.delay, jitter=self.jitter, ordered=self.ordered)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.where} delays packets by {show_seconds(self.delay)} ± {show_seconds(self.jitter)}"

    @override
    @classmethod
    def draw(cls, draw: random.Random, fabric: Fabric) -> dict[str, Any]:
        wait = _random_wait(draw, fabric)
        return {"link": random_link(draw, fabric), "delay": wait, "jitter": wait, "ordered": draw.random() < 0.5}

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_late(probe, 0.02)


@FAULTS.register
class Reorder(RelayedFault):
    """A share of the packets overtakes the others, which wait for `delay`."""

    kind: Literal["reorder"]
    share: Share = 0.1
    delay: DelayTime = Field(gt=0, le=60)
    example: ClassVar = {"delay": 0.03, "share": 0.5, **_UP}
    draws: ClassVar = {"link": random_link, "delay": _random_wait, "share": between(0.05, 0.5, 3)}

    @property
    @override
    def impairment(self) -> Impairment:
        return Impairment(delay=self.delay, reorder=self.share)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"on {self.where} {self.share * 100:g}% of packets overtake by {show_seconds(self.delay)}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_late(probe, 0.0, in_order=False)


class Swap(FaultAction["SwapCables"]):
    """Exchange the far ends of two cables."""

    _swapped = False

    @override
    def inject(self) -> None:
        self.context.injector.swap(*self.fault.cables)
        self._swapped = True

    @override
    def clear(self) -> None:
        if self._swapped:
            self.context.injector.swap(*self.fault.cables)
            self._swapped = False


@FAULTS.register
class SwapCables(LastingFault):
    """The far ends of two cables are plugged into each other's ports."""

    kind: Literal["swap_cables"]
    cables: Annotated[tuple[CableName, CableName], Field(alias="links")]
    example: ClassVar = {"links": [CABLE, OTHER]}
    action_class: ClassVar = Swap
    phrase: ClassVar = "{0.cables[0]} and {0.cables[1]} are swapped"

    @model_validator(mode="after")
    def _two(self) -> "SwapCables":
        if self.cables[0] == self.cables[1]:
            raise ValueError(f"{self.cables[0]} cannot be swapped with itself; name two cables")
        return self

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return tuple(fabric.link(cable).name for cable in self.cables)

    @override
    def claims(self, fabric: Fabric) -> frozenset[str]:
        return frozenset[str]().union(*map(frames_of, self.links(fabric)))

    @override
    @classmethod
    def draw(cls, draw: random.Random, fabric: Fabric) -> dict[str, Any]:
        """Two cables of one plane that lead up from the same tier."""
        kind, plane = draw.choice(("nic", "fabric")), draw.randint(1, fabric.planes)
        alike = [link.name for link in fabric.links if link.kind == kind and link.plane == plane]
        return {"links": tuple(draw.sample(alike, 2))}

    @override
    def self_test(self, probe: FaultProbe) -> None:
        probe.inject()
        crossed = probe.cross_swapped()
        probe.clear()
        probe.expect(crossed, "swapped cables do not lead to each other's far ends")
        probe.expect(probe.cross() == (FRAMES, FRAMES), "cables stay swapped")
