"""Faults of one cable, as a scenario writes them. What each does on the wire is in docs/faults.md."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from mrclab.lab.faults.base import Direction, FaultBase, LastingFault, at_least_one, direction_text
from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.names import CableName, PlaneNumber
from mrclab.lab.scenario.units import Duration, Percent, show_seconds
from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.spec import Delay as DelayTime

Share = Annotated[Percent, Field(gt=0, le=1)]  # 1% or 0.01
MinLength = Annotated[int, Field(ge=0, le=65535, description="frames shorter than this many bytes are left alone")]
_BOTH_WAYS: tuple[Direction, ...] = ("up", "down")
_SHORTEST_SWITCH = 0.02  # seconds: how often a running scenario looks at its faults, where links are as on the wire
_MOST_FLAPS = 20  # per second, there


class CableFault(LastingFault):
    """A fault of one cable."""

    link: CableName

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cable."""
        return (fabric.link(self.link).name,)


class PacketFault(CableFault):
    """A fault that concerns packets; carrier stays. `up` is from the lower end of the cable (NIC, T0) to the upper."""

    direction: Direction = "both"

    @property
    def where(self) -> str:
        """Cable and direction in words."""
        return self.link + direction_text(self.direction)


class RelayedFault(PacketFault):
    """A fault for which frames take their way through a process, of which there is one for each cable and direction."""

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The way of these frames."""
        ways = _BOTH_WAYS if self.direction == "both" else (self.direction,)
        return frozenset(way_through(link, way) for link in self.links(fabric) for way in ways)


def way_through(link: str, way: Direction) -> str:
    """The way of the frames of a cable in one direction, in words."""
    return f"the way of frames through {link}{direction_text(way)}"


class LinkDown(CableFault):
    """Carrier is lost at both ends of a cable, and comes back."""

    kind: Literal["link_down"]

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.link} down"


class Flap(CableFault):
    """Carrier goes and comes: at a steady `period`, or at random with a mean `rate`, each time down for `down`."""

    kind: Literal["flap"]
    period: Duration | None = Field(default=None, gt=0, description="seconds from one loss of carrier to the next")
    rate: float | None = Field(default=None, gt=0, description="flaps per second, drawn from the seed (Poisson)")
    duty: Share = Field(default=0.5, description="share of the period without carrier")
    down: Duration | None = Field(default=None, gt=0, description="seconds without carrier, instead of duty")
    count: int | None = Field(default=None, ge=1, description="flaps, then the fault is over")

    @model_validator(mode="after")
    def _one_rhythm(self, info: ValidationInfo) -> "Flap":
        fabric = (info.context or {}).get("fabric")
        pace = fabric.spec.pace if fabric is not None else 1.0
        shortest, most = _SHORTEST_SWITCH * pace, _MOST_FLAPS / pace
        if (self.period is None) == (self.rate is None):
            raise ValueError("a flap needs either a period (such as 1s) or a Poisson rate per second (such as 0.2)")
        if self.rate is not None and self.down is None:
            raise ValueError("a flap with a Poisson rate needs down, the time without carrier, such as down: 200ms")
        if self.period is not None and self.down_seconds >= self.period:
            raise ValueError(
                f"a flap of {self.period:g} s cannot be down for {self.down_seconds:g} s; lower duty or down"
            )
        if self.down_seconds < shortest:
            raise ValueError(f"a flap is down for at least {show_seconds(shortest)}; raise period, duty or down")
        if self.rate is not None and self.rate > most:
            raise ValueError(f"a cable flaps at most {most:.4g} times a second; lower rate")
        return self

    @property
    def down_seconds(self) -> float:
        """Time without carrier in each flap."""
        return self.down if self.down is not None else self.duty * (self.period or 0.0)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        rhythm = f"every {show_seconds(self.period)}" if self.period else f"{self.rate:g} times a second, at random,"
        times = f", {self.count} times" if self.count else ""
        return f"{self.link} flaps {rhythm} for {show_seconds(self.down_seconds)}{times}"


class GrayLoss(PacketFault):
    """A share of the packets is lost: drawn from the seed, drawn by the kernel, or every n-th."""

    kind: Literal["loss"]
    rate: Share | None = Field(default=None, description="share of packets to lose, such as 1%")
    every: int | None = Field(default=None, ge=1, description="lose every n-th packet instead")
    seeded: bool = Field(default=True, description="the same packets with the same seed; false: drawn by the kernel")
    min_length: MinLength = 0

    @model_validator(mode="after")
    def _one_measure(self) -> "GrayLoss":
        if (self.rate is None) == (self.every is None):
            raise ValueError("a loss needs either a rate (such as 1%) or every (such as 100, for each 100th packet)")
        return self

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        share = f"{self.rate * 100:g}% of packets" if self.rate else f"every {self.every}. packet"
        return f"{self.where} loses {share}"


class PathName(Strict):
    """One path out of a host, whatever the tag of the EV: plane, and uplink of the T0 (0 inside a T0 group)."""

    plane: PlaneNumber
    uplink: int = Field(ge=0, le=srv6.MAX_INDEX)


class EvLoss(LastingFault):
    """Packets of some EVs, paths or uSIDs are lost, on one cable or wherever they cross the fabric."""

    kind: Literal["ev_loss"]
    link: CableName | None = None
    everywhere: bool = Field(default=False, description="wherever a packet leaves its host, instead of link")
    direction: Direction = "both"
    evs: tuple[Annotated[int, Field(ge=0, le=0xFFFF_FFFF)], ...] = Field(default=(), description="whole EVs, 32 bits")
    of_paths: tuple[PathName, ...] = Field(default=(), alias="paths", description="paths, whatever the tag of the EV")
    usids: tuple[Annotated[int, Field(ge=1, le=0xFFFF)], ...] = Field(
        default=(), description="uSIDs that are still ahead in the destination address"
    )
    rate: Share = 1.0

    @model_validator(mode="after")
    def _something_somewhere(self) -> "EvLoss":
        if (self.link is None) != self.everywhere:
            raise ValueError("an ev_loss needs either a link or everywhere: true")
        if not (self.evs or self.of_paths or self.usids):
            raise ValueError("an ev_loss needs evs, paths (such as {plane: 1, uplink: 2}) or usids")
        return self

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cable; of everywhere, the NICs' cables: each packet meets the fault where it leaves its host, once."""
        if self.link is not None:
            return (fabric.link(self.link).name,)
        return tuple(link.name for link in fabric.links if link.kind == "nic")

    def paths(self, fabric: Fabric) -> tuple[tuple[int, int], ...]:
        """The paths that are named, by themselves or by their EVs."""
        del fabric
        by_ev = [(srv6.ev_fields(value).plane, srv6.ev_fields(value).uplink) for value in self.evs]
        return (*by_ev, *((path.plane, path.uplink) for path in self.of_paths))

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        what = [f"EV {value:#010x}" for value in self.evs]
        what += [f"plane {path.plane} uplink {path.uplink}" for path in self.of_paths]
        what += [f"uSID {value:04x}" for value in self.usids]
        where = "everywhere" if self.link is None else f"on {self.link}{direction_text(self.direction)}"
        return f"{self.rate * 100:g}% of packets of {', '.join(what)} are lost {where}"


class SilentDrop(PacketFault):
    """Everything is lost while carrier stays up."""

    kind: Literal["silent_drop"]
    min_length: MinLength = 0

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.where} loses every packet, with carrier up"


class Corruption(PacketFault):
    """Bits of one byte are flipped in a share of the packets; the receiver's checks have to notice."""

    kind: Literal["corrupt"]
    rate: Share = 0.01
    offset: int = Field(default=160, ge=0, le=8191, description="byte, counted from the outer IPv6 header")
    flip: int = Field(default=0x55, ge=1, le=0xFF, description="bits to flip")
    min_length: MinLength = 0

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.where} damages byte {self.offset} of {self.rate * 100:g}% of packets"


class RateCut(PacketFault):
    """What exceeds a rate is lost, as by a policer; nothing is queued."""

    kind: Literal["rate_limit"]
    rate_pps: int = Field(ge=1, description="packets per second and direction")
    burst: int = Field(default=5, ge=1, description="packets")
    min_length: MinLength = 0

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.where} carries {self.rate_pps} packets/s at most"


class Delay(RelayedFault):
    """Packets take longer."""

    kind: Literal["delay"]
    delay: DelayTime = Field(gt=0, le=60)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.where} delays packets by {show_seconds(self.delay)}"


class Jitter(RelayedFault):
    """Packets take longer by a varying time; they stay in order unless `ordered` is false."""

    kind: Literal["jitter"]
    delay: DelayTime = Field(gt=0, le=60, description="mean")
    jitter: DelayTime = Field(gt=0, le=60, description="greatest difference from it; drawn evenly, from the seed")
    ordered: bool = True

    @model_validator(mode="after")
    def _not_before_sent(self) -> "Jitter":
        if self.jitter > self.delay:
            raise ValueError(f"jitter {self.jitter:g} s exceeds delay {self.delay:g} s; raise delay or lower jitter")
        return self

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.where} delays packets by {show_seconds(self.delay)} ± {show_seconds(self.jitter)}"


class Reorder(RelayedFault):
    """A share of the packets overtakes the others, which wait for `delay`."""

    kind: Literal["reorder"]
    share: Share = 0.1
    delay: DelayTime = Field(gt=0, le=60)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"on {self.where} {self.share * 100:g}% of packets overtake by {show_seconds(self.delay)}"


class LosePackets(PacketFault):
    """Exactly the listed packets are lost, counted from 1 in each direction from when the fault strikes."""

    kind: Literal["lose_packets"]
    packets: Annotated[
        tuple[Annotated[int, Field(ge=1, le=2**31)], ...], Field(max_length=10_000), AfterValidator(at_least_one)
    ]
    min_length: MinLength = 0

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        numbers = ", ".join(str(number) for number in self.packets[:8]) + (", …" if len(self.packets) > 8 else "")
        return f"{self.where} loses packets number {numbers}"


class SwapCables(LastingFault):
    """The far ends of two cables are plugged into each other's ports."""

    kind: Literal["swap_cables"]
    cables: Annotated[tuple[CableName, CableName], Field(alias="links")]

    @model_validator(mode="after")
    def _two(self) -> "SwapCables":
        if self.cables[0] == self.cables[1]:
            raise ValueError(f"{self.cables[0]} cannot be swapped with itself; name two cables")
        return self

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """Both cables."""
        return tuple(fabric.link(cable).name for cable in self.cables)

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The way of all frames of both."""
        return frozenset(way_through(link, way) for link in self.links(fabric) for way in _BOTH_WAYS)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.cables[0]} and {self.cables[1]} are swapped"


CABLE_KINDS: tuple[type[FaultBase], ...] = (
    LinkDown,
    Flap,
    GrayLoss,
    EvLoss,
    SilentDrop,
    Corruption,
    RateCut,
    Delay,
    Jitter,
    Reorder,
    LosePackets,
    SwapCables,
)
