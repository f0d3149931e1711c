"""What is done for faults of cables. How a cable loses carrier or packets is up to `topo`."""

import math
import random
from collections.abc import Mapping

from mrclab.lab.faults.action import Counters, FaultAction, Ground, Impaired, Injection
from mrclab.lab.faults.base import Direction, FaultBase
from mrclab.lab.faults.cablemodels import (
    Corruption,
    Delay,
    EvLoss,
    Flap,
    GrayLoss,
    Jitter,
    LinkDown,
    LosePackets,
    RateCut,
    Reorder,
    SilentDrop,
    SwapCables,
)
from mrclab.lab.faults.groupmodels import HostLoss, NicDown, NicPortDown, PlaneDown, Transceiver
from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import EVERY_PACKET, Match
from mrclab.topo.cables.impairment import Impairment

_DRAWS = 4096  # seeded losses drawn in advance for all cables of a fault together
_LEAST_DRAWS = 64  # for each cable


class CutCables(FaultAction[LinkDown | Transceiver | NicPortDown | NicDown | PlaneDown]):
    """Carrier goes at both ends of some cables, all at once."""

    def strike(self) -> None:
        """Take the cables down."""
        self.ground.breakage.hold_down(self.fault.name, *self.fault.links(self.ground.fabric))

    def heal(self) -> None:
        """Bring them up again, those apart that another fault holds down as well."""
        self.ground.breakage.let_go(self.fault.name)


class FlapCable(FaultAction[Flap]):
    """Carrier goes and comes."""

    def __init__(self, ground: Ground, fault: Flap) -> None:
        super().__init__(ground, fault)
        self._random = random.Random(f"{ground.seed}/{fault.name}")
        self._begun = self._flaps = 0
        self._up = True

    def strike(self) -> None:
        """The first flap begins."""
        self._down(self.ground.now)

    def advance(self, now: float) -> list[str]:
        """The next edge, where its time has come."""
        if now < self.due or self.finished:
            return []
        if self._up:
            self._down(self.due)
        else:
            self._raise(self.due)
        return []

    def heal(self) -> Counters:
        """Leave it up."""
        if not self._up:
            self._edge(up=True)
        return {"flaps": self._flaps}

    def _down(self, due: float) -> None:
        self._edge(up=False)
        self._flaps += 1
        self.due = due + self.fault.down_seconds

    def _raise(self, due: float) -> None:
        self._edge(up=True)
        if self._flaps == self.fault.count:
            self.finished, self.due = True, math.inf
        elif self.fault.period is not None:
            self.due = due + self.fault.period - self.fault.down_seconds
        else:
            self.due = due + self._random.expovariate(self.fault.rate or 1.0)

    def _edge(self, *, up: bool) -> None:
        at, breakage = self.ground.now, self.ground.breakage
        self._up = up
        if up:
            breakage.let_go(self.fault.name)
        else:
            breakage.hold_down(self.fault.name, self.fault.link)
        self.ground.record("fault.edge", at, fault=self.fault.name, link=self.fault.link, up=up)


class Lossy(FaultAction[FaultBase]):
    """Something happens to packets on cables. What, and to which, is what kinds differ in."""

    def __init__(self, ground: Ground, fault: FaultBase) -> None:
        super().__init__(ground, fault)
        self._injected: Injection | None = None

    def strike(self) -> None:
        """From now on, on all cables at the same moment."""
        links = self.fault.links(self.ground.fabric)
        places = [(link, self.do(link, len(links))) for link in links]
        self._injected = self.ground.breakage.inject(places, match=self.match(), direction=self.direction())

    def heal(self) -> Counters:
        """No longer; returns packets that the fault looked at, and those that it took or damaged."""
        seen, hit = self._injected.heal() if self._injected is not None else (0, 0)
        self._injected = None
        return {"seen": seen, "dropped": hit}

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """What happens to a packet on one of so many cables."""
        raise NotImplementedError

    def match(self) -> Match:
        """To which packets."""
        shortest = getattr(self.fault, "min_length", 0)
        return Match(min_length=shortest) if shortest else EVERY_PACKET

    def direction(self) -> Direction:
        """In which direction."""
        return getattr(self.fault, "direction", "both")

    def seed(self, link: str) -> str:
        """Of draws on one cable."""
        return f"{self.ground.seed}/{self.fault.name}/{link}"


class LoseShare(Lossy):
    """A share of packets is lost."""

    fault: GrayLoss | HostLoss

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """Every n-th, drawn from the seed, or drawn by the kernel."""
        if self.fault.rate is None:
            return cablefaults.EveryNth(self.fault.every or 1)
        if self.fault.seeded and self.fault.rate < 1:
            draws = max(_LEAST_DRAWS, _DRAWS // cables_hit)
            return cablefaults.SeededLoss(self.fault.rate, self.seed(link), draws)
        return cablefaults.Loss(self.fault.rate)


class LoseAtHosts(LoseShare):
    """The same on the way down to hosts."""

    def direction(self) -> Direction:
        """Towards the NIC, which is the lower end of its cable."""
        return "down"


class LoseEvs(Lossy):
    """Packets of some EVs, paths or uSIDs are lost."""

    fault: EvLoss

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """All of them, or a share drawn from the seed."""
        if self.fault.rate >= 1:
            return cablefaults.Drop()
        return cablefaults.SeededLoss(self.fault.rate, self.seed(link), max(_LEAST_DRAWS, _DRAWS // cables_hit))

    def match(self) -> Match:
        """By what the scenario names."""
        paths = tuple((path.plane, path.uplink) for path in self.fault.of_paths)
        return Match(usids=self.fault.usids, evs=self.fault.evs, paths=paths)

    def direction(self) -> Direction:
        """Everywhere means: where a packet leaves its host."""
        return "up" if self.fault.everywhere else self.fault.direction


class DropAll(Lossy):
    """Everything is lost."""

    fault: SilentDrop

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """All packets."""
        del link, cables_hit
        return cablefaults.Drop()


class Damage(Lossy):
    """A byte is changed."""

    fault: Corruption

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """In a share of packets, drawn by the kernel."""
        del link, cables_hit
        return cablefaults.Corrupt(self.fault.rate, self.fault.offset, self.fault.flip)

    def heal(self) -> Counters:
        """No longer; returns packets that the fault looked at, and those that it damaged."""
        done = super().heal()
        return {"seen": done["seen"], "damaged": done["dropped"]}


class Police(Lossy):
    """What exceeds a rate is lost."""

    fault: RateCut

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """Above the rate."""
        del link, cables_hit
        return cablefaults.RateLimit(self.fault.rate_pps, self.fault.burst)


class LoseListed(Lossy):
    """Exactly the listed packets are lost."""

    fault: LosePackets

    def do(self, link: str, cables_hit: int) -> cablefaults.Action:
        """By number."""
        del link, cables_hit
        return cablefaults.Packets(self.fault.packets)


class DetourAction(FaultAction[Delay | Jitter | Reorder]):
    """Frames of a cable take a detour."""

    def __init__(self, ground: Ground, fault: Delay | Jitter | Reorder) -> None:
        super().__init__(ground, fault)
        self._impaired: Impaired | None = None

    def strike(self) -> None:
        """The detour begins."""
        fault, seed = self.fault, random.Random(f"{self.ground.seed}/{self.fault.name}").getrandbits(32)
        self._impaired = self.ground.breakage.impair(
            fault.link, _impairment(fault), direction=fault.direction, seed=seed
        )

    def heal(self) -> Counters:
        """It ends; returns frames that came in, and those that it lost, which is none."""
        if self._impaired is None:
            return {}
        received, lost, sent = self._impaired.heal()
        return {"seen": received, "dropped": lost, "refused": received - sent}


class Swap(FaultAction[SwapCables]):
    """Two cables lead to each other's far ends."""

    def __init__(self, ground: Ground, fault: SwapCables) -> None:
        super().__init__(ground, fault)
        self._swapped = False

    def strike(self) -> None:
        """Swap them."""
        self.ground.breakage.swap(*self.fault.cables)
        self._swapped = True

    def heal(self) -> None:
        """Swap them back."""
        if self._swapped:
            self._swapped = False
            self.ground.breakage.swap(*self.fault.cables)


def _impairment(fault: Delay | Jitter | Reorder) -> Impairment:
    if isinstance(fault, Jitter):
        return Impairment(delay=fault.delay, jitter=fault.jitter, ordered=fault.ordered)
    if isinstance(fault, Reorder):
        return Impairment(delay=fault.delay, reorder=fault.share)
    return Impairment(delay=fault.delay)


CABLE_ACTIONS: Mapping[str, type[FaultAction]] = {  # type: ignore[type-arg]
    "link_down": CutCables,
    "transceiver": CutCables,
    "nic_port_down": CutCables,
    "nic_down": CutCables,
    "plane_down": CutCables,
    "flap": FlapCable,
    "loss": LoseShare,
    "host_loss": LoseAtHosts,
    "ev_loss": LoseEvs,
    "silent_drop": DropAll,
    "corrupt": Damage,
    "rate_limit": Police,
    "lose_packets": LoseListed,
    "delay": DetourAction,
    "jitter": DetourAction,
    "reorder": DetourAction,
    "swap_cables": Swap,
}
