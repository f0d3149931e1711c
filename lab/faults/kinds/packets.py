"""Faults that drop or damage packets while carrier stays up."""

import random
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator
from typing_extensions import override

from mrclab.lab.faults.base import FAULTS, at_least_one, direction_text
from mrclab.lab.faults.families import (
    LossyFault,
    MinLength,
    PacketFault,
    Share,
    between,
    random_direction,
    random_link,
)
from mrclab.lab.faults.losses import LossModel, cycle
from mrclab.lab.faults.probe import CABLE, FRAMES, LONG, FaultProbe
from mrclab.lab.scenario.names import CableName, CableOrBusiest, HostName, PathName, PlaneNumber, fabric_of
from mrclab.lab.scenario.units import Duration, Percent
from mrclab.topo import srv6
from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import Direction, Match
from mrclab.topo.input.sentences import several
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import FULL_HEADER_BYTES

_DRAWS = 4096  # seeded losses drawn in advance for all cables of a fault together
_MIN_DRAWS = 64  # for each cable
ShareOrNone = Annotated[Percent, Field(ge=0, le=1)]  # 1% or 0.01; of 0 nothing is lost
_UP: dict[str, Any] = {"link": CABLE, "direction": "up", "min_length": LONG}


def _seeded(rate: float, seed: str, cables: int) -> cablefaults.Action:
    return cablefaults.SeededLoss(rate, seed, max(_MIN_DRAWS, _DRAWS // cables))


def _random_rate(draw: random.Random, fabric: Fabric) -> int:
    return max(1, round(draw.uniform(0.1, 0.8) * fabric.spec.link.rate_pps))


def _random_packets(draw: random.Random, _fabric: Fabric) -> tuple[int, ...]:
    return tuple(sorted(draw.sample(range(1, 500), draw.randint(1, 20))))


def _every_frame(arrived: list[int]) -> bool:
    return arrived == FRAMES


def _expect_loss(
    probe: FaultProbe, up: Callable[[list[int]], bool], down: Callable[[list[int]], bool] = _every_frame
) -> None:
    """Verify that in each direction the expected frames arrive, all drops are counted, and none follows the end."""
    probe.inject()
    upwards, downwards = probe.cross()
    probe.clear()
    probe.expect(up(upwards), f"of forty frames upwards these arrived: {upwards}")
    probe.expect(down(downwards), f"of forty frames downwards these arrived: {downwards}")
    lost = 2 * len(FRAMES) - len(upwards) - len(downwards)
    probe.expect(probe.counters["dropped"] == lost, f"{lost} frames were lost, {probe.counters} were counted")
    probe.expect(probe.cross() == (FRAMES, FRAMES), "frames are lost after the fault was cleared")


class LossFault(LossyFault):
    """A fault that loses packets: a share, drawn from the seed or by the kernel, every n-th, or by a loss model."""

    rate: ShareOrNone | None = Field(default=None, description="share of packets to lose, such as 1%")
    every: int | None = Field(default=None, ge=1, le=2**31, description="lose every n-th packet of each cable instead")
    model: LossModel | None = Field(default=None, description="a loss model instead, e.g. losses in bursts")
    seeded: bool = Field(default=True, description="the same packets with the same seed; false: drawn by the kernel")
    min_length: MinLength = 0

    @model_validator(mode="after")
    def _one_measure(self) -> "LossFault":
        if [self.rate, self.every, self.model].count(None) != 2:
            raise ValueError(
                f"a {self.kind_name} needs one of rate (such as 1%), every (such as 100, for each 100th) or model"
            )
        return self

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        if self.model is not None:
            return cycle(self.model, seed, max(_MIN_DRAWS, _DRAWS // cables))
        if self.rate is None:
            return cablefaults.every_nth(self.every or 1)
        if not self.rate:
            return cablefaults.LossCycle(2, ())
        if self.seeded and self.rate < 1:
            return _seeded(self.rate, seed, cables)
        return cablefaults.Loss(self.rate)

    @property
    def lost_text(self) -> str:
        """The lost share, in words."""
        if self.model is not None:
            return self.model.text
        return f"1 of every {self.every} packets" if self.rate is None else f"{self.rate * 100:g}% of packets"


@FAULTS.register
class GrayLoss(LossFault, PacketFault):
    """A share of the packets is lost: drawn from the seed, drawn by the kernel, or every n-th."""

    kind: Literal["loss"]
    link: CableOrBusiest
    example: ClassVar = {"rate": 0.5, **_UP}
    draws: ClassVar = {"direction": random_direction, "rate": between(0.01, 0.5), "link": random_link}
    phrase: ClassVar = "{0.where} loses {0.lost_text}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        for one in (probe, probe.another("loss", seeded=False, **self.example)):
            _expect_loss(one, lambda arrived: 4 < len(arrived) < len(FRAMES) - 4)
        seen = []
        for _ in range(2):
            again = probe.another("loss", **self.example)
            again.inject()
            seen.append(again.cross()[0])
            again.clear()
        probe.expect(seen[0] == seen[1], "the same seed does not lose the same packets")


@FAULTS.register
class HostLoss(LossFault):
    """Packets towards hosts are lost on the last cable, in all planes, as by a congested or faulty NIC."""

    kind: Literal["host_loss"]
    hosts: Literal["all"] | Annotated[tuple[HostName, ...], AfterValidator(at_least_one)] = "all"
    planes: Literal["all"] | Annotated[tuple[PlaneNumber, ...], AfterValidator(at_least_one)] = "all"
    example: ClassVar = {"every": 2, "min_length": LONG}

    @property
    @override
    def affected(self) -> Direction:
        return "down"  # the NIC is the lower end of its cable

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        names = [host.name for host in fabric.hosts] if self.hosts == "all" else self.hosts
        return tuple(
            port.link
            for name in dict.fromkeys(names)
            for port in fabric.host(name).ports
            if self.planes == "all" or port.plane in self.planes
        )

    @override
    def text(self, fabric: Fabric) -> str:
        hosts = "all hosts" if self.hosts == "all" else several(self.hosts)
        where = "" if self.planes == "all" else f" in plane {several(map(str, self.planes))}"
        return f"{hosts} lose {self.lost_text} on arrival{where}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_loss(probe, _every_frame, lambda arrived: arrived == FRAMES[1::2])


@FAULTS.register
class EvLoss(LossyFault):
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
    rate: ShareOrNone = 1.0
    example: ClassVar = {"everywhere": True, "paths": [{"plane": 1, "uplink": 2}]}

    @model_validator(mode="after")
    def _something_somewhere(self, info: ValidationInfo) -> "EvLoss":
        if (self.link is None) != self.everywhere:
            raise ValueError("an ev_loss needs either a link or everywhere: true")
        if not (self.evs or self.of_paths or self.usids):
            raise ValueError("an ev_loss needs evs, paths (such as {plane: 1, uplink: 2}) or usids")
        if fabric := fabric_of(info):
            self._check(fabric)
        return self

    def _check(self, fabric: Fabric) -> None:
        """Raise ValueError for EVs and uSIDs that no packet of the fabric can have."""
        for value in self.evs:
            plane, uplink, _ = srv6.ev_fields(value)
            if not 1 <= plane <= fabric.planes or uplink > fabric.most_paths:
                has = f"the fabric has planes 1 to {fabric.planes} with uplinks 1 to {fabric.most_paths}"
                raise ValueError(f"EV {value:#010x} is of plane {plane}, uplink {uplink}, and {has}; correct evs")
        if self.usids:
            planes, downlinks = range(1, fabric.planes + 1), range(1, fabric.spec.hosts_per_t0 + 1)
            known = {srv6.usid(srv6.UsidType.DOWNLINK, plane, number) for plane in planes for number in downlinks}
            unknown = set(self.usids).difference(known, (switch.usid for switch in fabric.switches))
            if unknown:
                raise ValueError(f"no switch and no downlink has the uSID {min(unknown):04x}; `mrclab plan` lists them")

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        return cablefaults.Drop() if self.rate >= 1 else _seeded(self.rate, seed, cables)

    @property
    @override
    def match(self) -> Match:
        return Match(usids=self.usids, evs=self.evs, paths=tuple((path.plane, path.uplink) for path in self.of_paths))

    @property
    @override
    def affected(self) -> Direction:
        return "up" if self.everywhere else self.direction  # everywhere: where a packet leaves its host

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cable; of `everywhere`, the NICs' cables: each packet meets the fault where it leaves its host, once."""
        if self.link is not None:
            return (fabric.link(self.link).name,)
        return tuple(link.name for link in fabric.links if link.kind == "nic")

    @override
    def paths(self, fabric: Fabric) -> tuple[tuple[int, int], ...]:
        by_ev = [(srv6.ev_fields(value).plane, srv6.ev_fields(value).uplink) for value in self.evs]
        return (*by_ev, *((path.plane, path.uplink) for path in self.of_paths))

    @override
    def text(self, fabric: Fabric) -> str:
        what = [f"EV {value:#010x}" for value in self.evs]
        what += [f"plane {path.plane} uplink {path.uplink}" for path in self.of_paths]
        what += [f"uSID {value:04x}" for value in self.usids]
        where = "everywhere" if self.link is None else f"on {self.link}{direction_text(self.direction)}"
        return f"{self.rate * 100:g}% of packets of {', '.join(what)} are lost {where}"

    @override
    @classmethod
    def draw(cls, draw: random.Random, fabric: Fabric) -> dict[str, Any]:
        """The uSID of a T1, on a cable of a T0 below it."""
        switch = draw.choice([switch for switch in fabric.switches if switch.tier == "t1"])
        link, rate = draw.choice(switch.ports).link, round(draw.uniform(0.05, 1), 4)
        return {"link": link, "usids": (switch.usid,), "rate": rate}

    @override
    def self_test(self, probe: FaultProbe) -> None:
        usids = (srv6.usid(srv6.UsidType.T1, 1, 2),)
        for one in (probe, probe.another("ev_loss", everywhere=True, usids=usids)):
            one.inject()
            arrived = one.cross_uplinks((1, 2, 3))
            one.clear()
            one.expect(arrived == [True, False, True], "not exactly the packets of the path are lost")
            one.expect(one.counters["dropped"] == 1, f"one packet was lost, {one.counters} were counted")


@FAULTS.register
class SilentDrop(LossyFault, PacketFault):
    """Everything is lost while carrier stays up."""

    kind: Literal["silent_drop"]
    min_length: MinLength = 0
    example: ClassVar = _UP
    draws: ClassVar = {"direction": random_direction, "link": random_link}
    phrase: ClassVar = "{0.where} loses every packet, with carrier up"

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        return cablefaults.Drop()

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_loss(probe, lambda arrived: not arrived)


@FAULTS.register
class Corruption(LossyFault, PacketFault):
    """Bits of one byte are flipped in a share of the packets; the receiver's checks have to notice."""

    kind: Literal["corrupt"]
    rate: Share = 0.01
    offset: int = Field(default=160, ge=0, le=8191, description="byte, counted from the outer IPv6 header")
    flip: int = Field(default=0x55, ge=1, le=0xFF, description="bits to flip")
    min_length: MinLength = 0
    example: ClassVar = {"rate": 1, "offset": 100, "flip": 0x81, **_UP}
    draws: ClassVar = {"direction": random_direction, "rate": between(0.01, 0.3), "link": random_link}
    counter: ClassVar = "damaged"

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        return cablefaults.Corrupt(self.rate, self.offset, self.flip)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.where} damages byte {self.offset} of {self.rate * 100:g}% of packets"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        probe.inject()
        arrived = probe.cross_one(bytes(512))
        probe.clear()
        changed = [(at, byte) for at, byte in enumerate(arrived) if byte]
        probe.expect(changed == [(100, 0x81)], "not exactly one byte changed")
        probe.expect(probe.counters["damaged"] == 1, f"one frame was damaged, {probe.counters} were counted")


@FAULTS.register
class RateCut(LossyFault, PacketFault):
    """Packets beyond a rate are lost, as by a policer; nothing is queued."""

    kind: Literal["rate_limit"]
    rate_pps: int = Field(ge=1, le=10**10, description="packets per second and direction")
    burst: int = Field(default=5, ge=1, le=2**32 - 1, description="packets")
    min_length: MinLength = 0
    example: ClassVar = {"rate_pps": 1, "burst": 5, **_UP}
    draws: ClassVar = {"link": random_link, "rate_pps": _random_rate}
    phrase: ClassVar = "{0.where} carries {0.rate_pps} packets/s at most"

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        return cablefaults.RateLimit(self.rate_pps, self.burst)

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_loss(probe, lambda arrived: arrived[:5] == FRAMES[:5] and len(arrived) < len(FRAMES))


@FAULTS.register
class LosePackets(LossyFault, PacketFault):
    """Exactly the listed packets are lost, counted from 1 in each direction from when the fault begins."""

    kind: Literal["lose_packets"]
    packets: Annotated[
        tuple[Annotated[int, Field(ge=1, le=2**31)], ...], Field(max_length=10_000), AfterValidator(at_least_one)
    ]
    min_length: MinLength = 0
    example: ClassVar = {"packets": [1, 7, 40], **_UP}
    draws: ClassVar = {"packets": _random_packets, "link": random_link}

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        return cablefaults.exactly(self.packets)

    @override
    def text(self, fabric: Fabric) -> str:
        numbers = ", ".join(str(number) for number in self.packets[:8]) + (", …" if len(self.packets) > 8 else "")
        return f"{self.where} loses packets number {numbers}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        _expect_loss(probe, lambda arrived: arrived == [n for n in FRAMES if n not in {0, 6, 39}])


@FAULTS.register
class LossWithLoad(LossyFault, PacketFault):
    """Packets are lost by chance: none up to a load of the link, from there on ever more, `rate` of them at 100 %.

    As by weak optics, a shared buffer, or a NIC that cannot keep up.
    """

    worlds: ClassVar = frozenset({"sim"})  # rules of the kernel know no load

    kind: Literal["load_loss"]
    rate: Share = Field(description="share of packets that is lost at full load, such as 1%")
    above: Annotated[Percent, Field(ge=0, lt=1)] = Field(default=0.5, description="load up to which nothing is lost")
    window: Duration | None = Field(
        default=None, gt=0, le=10, description="time over which load is the mean; default: the longest base RTT"
    )
    example: ClassVar = {"link": CABLE, "rate": 0.5, "direction": "up", "above": 0.0}

    @override
    def on_packet(self, fabric: Fabric, link: str, seed: str, cables: int) -> cablefaults.Action:
        spec = fabric.spec
        bits = 8.0 * spec.link.rate_pps * (spec.path_mtu + FULL_HEADER_BYTES)
        if spec.link.rate is not None:
            bits = fabric.link_times(fabric.link(link).index).rate
        window = spec.base_rtt(spec.longest) if self.window is None else self.window
        return cablefaults.LoadLoss(self.rate, self.above, bits, window, seed)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.where} loses up to {self.rate * 100:g}% of packets above {self.above * 100:g}% of load"
