"""Numbering of a Clos of two or three tiers: which port of which switch a cable joins to which. Arithmetic only.

Two tiers: every T0 of a plane has a cable to every T1. Three tiers: T0s and T1s stand in pods, every T0 has a cable to
every T1 of its pod, and T1 number i of each pod (its rail) to the T2s (i-1)·fan+1 … i·fan, which have one cable to each
pod. All numbers count from 1; T0s and T1s are counted through all pods of a plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from mrclab.topo.links import LinkTier
from mrclab.topo.names import Tier
from mrclab.topo.srv6 import UsidType

if TYPE_CHECKING:
    from mrclab.topo.spec import FabricSpec


class PortAt(NamedTuple):
    """A port of a plane: of a switch of a tier, or of a host where the tier is None."""

    tier: Tier | None
    number: int
    port: int


class Shape:
    """Switches, ports and cables of each plane of a spec."""

    def __init__(self, spec: FabricSpec) -> None:
        self.planes = spec.planes
        self.pods = spec.pods
        self.t0s = spec.t0s
        self.down = spec.hosts_per_t0
        self.up = spec.t1s  # uplinks of a T0, and T1s of a pod
        self.t1s = spec.pods * spec.t1s
        self.t2s = spec.t2s
        self.t2s_per_t1 = spec.t2s_per_t1
        self.t0s_of_pod = spec.t0s // spec.pods
        self.counts: dict[Tier, int] = {"t0": self.t0s, "t1": self.t1s, "t2": self.t2s}
        self.ports: dict[Tier, int] = {
            "t0": self.down + self.up, "t1": self.t0s_of_pod + self.t2s_per_t1, "t2": self.pods,
        }  # fmt: skip
        self.nic_links = spec.t0s * spec.hosts_per_t0 * spec.planes
        self._low_links = self.t0s * self.up  # of a plane, between T0s and T1s
        self.low_end = self.nic_links + spec.planes * self._low_links
        self._high_links = self.t1s * self.t2s_per_t1  # of a plane, between T1s and T2s
        self.links = self.low_end + spec.planes * self._high_links

    # --- switches ---------------------------------------------------------------------------------------------------

    @property
    def of_plane(self) -> int:
        """Switches of a plane."""
        return self.t0s + self.t1s + self.t2s

    def switch_index(self, tier: Tier, plane: int, number: int) -> int:
        """Index of a switch among all, plane by plane, T0s first."""
        before = {"t0": 0, "t1": self.t0s, "t2": self.t0s + self.t1s}[tier]
        return (plane - 1) * self.of_plane + before + number - 1

    def switch_at(self, index: int) -> tuple[Tier, int, int]:
        """(tier, plane, number) of the switch at a place."""
        plane, place = index // self.of_plane + 1, index % self.of_plane
        if place < self.t0s:
            return "t0", plane, place + 1
        place -= self.t0s
        return ("t1", plane, place + 1) if place < self.t1s else ("t2", plane, place - self.t1s + 1)

    def has_switch(self, tier: Tier, plane: int, number: int) -> bool:
        """Return True if there is a switch of this tier, plane and number."""
        return plane <= self.planes and number <= self.counts[tier]

    def pod(self, tier: Tier, number: int) -> int:
        """Pod of a T0 or T1."""
        return (number - 1) // (self.t0s_of_pod if tier == "t0" else self.up) + 1

    def t1_base(self, t0: int) -> int:
        """Number that the T1s above a T0 count on from: its uplink u leads to T1 base + u."""
        return (self.pod("t0", t0) - 1) * self.up

    # --- ports ------------------------------------------------------------------------------------------------------

    def is_up(self, tier: Tier, port: int) -> bool:
        """Return True if a port leads to the tier above."""
        return port > (self.down if tier == "t0" else self.t0s_of_pod) if tier != "t2" else False

    def far(self, tier: Tier, number: int, port: int) -> PortAt:
        """The port at the other end of a switch port's cable."""
        if tier == "t0":
            if port <= self.down:
                return PortAt(None, (number - 1) * self.down + port, 0)
            return PortAt("t1", self.t1_base(number) + port - self.down, self._place_in_pod(number))
        if tier == "t1":
            pod, rail = self.pod("t1", number), (number - 1) % self.up
            if port <= self.t0s_of_pod:
                return PortAt("t0", (pod - 1) * self.t0s_of_pod + port, self.down + rail + 1)
            return PortAt("t2", rail * self.t2s_per_t1 + port - self.t0s_of_pod, pod)
        rail, place = divmod(number - 1, self.t2s_per_t1)
        return PortAt("t1", (port - 1) * self.up + rail + 1, self.t0s_of_pod + place + 1)

    def port_for(self, tier: Tier, number: int, kind: UsidType, index: int) -> int:
        """Return the port by which a switch sends packets whose next uSID has this kind and index; 0 for none."""
        if tier == "t0" and kind is UsidType.DOWNLINK:
            return index if 1 <= index <= self.down else 0
        expected = {UsidType.T0: "t0", UsidType.T1: "t1", UsidType.T2: "t2"}.get(kind)
        if tier == "t0":
            port = self.down + index - self.t1_base(number)
        elif kind is UsidType.T0:
            port = index - (self.pod("t1", number) - 1) * self.t0s_of_pod
        elif kind is UsidType.T2:
            port = self.t0s_of_pod + (index - 1) % self.t2s_per_t1 + 1 if self.t2s_per_t1 else 0
        else:
            port = self.pod("t1", index)
        if not 1 <= port <= self.ports[tier]:
            return 0
        return port if self.far(tier, number, port)[:2] == (expected, index) else 0

    def ports_to_group(self, tier: Tier, number: int, group: int) -> Sequence[int]:
        """Ports by which plain IPv6 may go on from a switch to a T0 group that is not a T0's own."""
        if tier == "t0":
            return range(self.down + 1, self.down + self.up + 1)
        pod = self.pod("t0", group)
        if tier == "t2":
            return [pod]
        if pod == self.pod("t1", number):
            return [group - (pod - 1) * self.t0s_of_pod]
        return range(self.t0s_of_pod + 1, self.t0s_of_pod + self.t2s_per_t1 + 1)

    def _place_in_pod(self, t0: int) -> int:
        return (t0 - 1) % self.t0s_of_pod + 1

    # --- cables -----------------------------------------------------------------------------------------------------

    def link_of_nic(self, host: int, plane: int) -> int:
        """Index of the cable of a host's port."""
        return (host - 1) * self.planes + plane - 1

    def link_of_switch(self, tier: Tier, plane: int, number: int, port: int) -> int:
        """Index of the cable of a switch's port: those of NICs come first, then plane by plane those above T0s, T1s."""
        if not self.is_up(tier, port):
            far = self.far(tier, number, port)
            if far.tier is None:
                return self.link_of_nic(far.number, plane)
            return self.link_of_switch(far.tier, plane, far.number, far.port)
        if tier == "t0":
            return self.nic_links + (plane - 1) * self._low_links + (number - 1) * self.up + port - self.down - 1
        place = (number - 1) * self.t2s_per_t1 + port - self.t0s_of_pod - 1
        return self.low_end + (plane - 1) * self._high_links + place

    def link_ends(self, index: int) -> tuple[int, PortAt, PortAt]:
        """Plane, lower and upper end of the cable at a place."""
        if index < self.nic_links:
            host, plane = index // self.planes + 1, index % self.planes + 1
            number, place = (host - 1) // self.down + 1, (host - 1) % self.down + 1
            return plane, PortAt(None, host, plane), PortAt("t0", number, place)
        if index < self.low_end:
            plane, place = divmod(index - self.nic_links, self._low_links)
            number, up = divmod(place, self.up)
            return (
                plane + 1,
                PortAt("t0", number + 1, self.down + up + 1),
                self.far("t0", number + 1, self.down + up + 1),
            )
        plane, place = divmod(index - self.low_end, self._high_links)
        number, up = divmod(place, self.t2s_per_t1)
        port = self.t0s_of_pod + up + 1
        return plane + 1, PortAt("t1", number + 1, port), self.far("t1", number + 1, port)

    def tier_of(self, index: int) -> LinkTier:
        """Tier of the cable at a place."""
        return "nic" if index < self.nic_links else "t0-t1" if index < self.low_end else "t1-t2"

    def link_between(self, one: tuple[Tier, int, int], other: tuple[Tier, int, int]) -> int | None:
        """Index of the cable from a switch (tier, plane, number) to one of a higher tier; None if there is none."""
        tier, plane, number = one
        for port in range(1, self.ports[tier] + 1):
            if self.is_up(tier, port) and self.far(tier, number, port)[:2] == (other[0], other[2]):
                return self.link_of_switch(tier, plane, number, port)
        return None
