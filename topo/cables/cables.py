"""All cables of a running fabric: port a – c1 – c2 – port b, c1 and c2 side by side in one namespace of the lab's own.

nftables joins c1 and c2: an ingress chain on each hands every frame to the other (`fwd to`). Faults happen here and
never to a port that a switch holds: taking c1 and c2 down takes the carrier from both ports and freezes nothing,
dropping a frame at c1's ingress loses it on the wire. Cable number k (its index in the model) has the interfaces
c<k>a towards `link.a` and c<k>b towards `link.b`. "up" is the direction from a to b, "down" from b to a.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mrclab.topo.cables import cablefaults
from mrclab.topo.cables.cablefaults import EVERY_PACKET, Action, Direction, Match
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import kernel
from mrclab.topo.model import Fabric, Link

_TABLE = "netdev cables"
_SIDES: dict[Direction, tuple[str, ...]] = {"both": ("a", "b"), "up": ("a",), "down": ("b",)}
_OTHER = {"a": "b", "b": "a"}

# The kernel announces a lost carrier at once only where the two ends of a veth pair have different interface indexes;
# with equal ones (both the second of their namespace, say) it holds the news back for up to a second.
_FIRST_INDEX = 10_001


@dataclass(frozen=True)
class AppliedFault:
    """A fault in force on one cable; the handle that `inject` gives and `clear` takes."""

    number: int
    link: Link
    sides: tuple[str, ...]
    match: Match
    action: Action

    def names(self) -> list[str]:
        """One name per direction, as used in chain and counter names."""
        return [f"{self.number}{side}" for side in self.sides]


@dataclass(frozen=True)
class Count:
    """Packets that a fault has looked at (`seen`) and acted on (`hit`)."""

    seen: int
    hit: int


class Cables:
    """Creates, breaks and restores the cables of a fabric. Safe to use from several threads."""

    def __init__(self, fabric: Fabric, namespace: str) -> None:
        self._fabric, self.namespace = fabric, namespace
        self.descriptor = -1  # of the namespace
        self._links: kernel.LinkSocket | None = None
        sides = (f"{link.index}{side}" for link in fabric.links for side in "ab")
        self._index = {side: _FIRST_INDEX + place for place, side in enumerate(sides)}
        self._down: set[int] = set()
        self._down_by: dict[int, set[str]] = {}  # cable → owners that hold it down
        self._faults: dict[int, AppliedFault] = {}
        self._detours: dict[str, bool] = {}  # direction → in use
        self._next_fault = 1
        # Side (`3a`) → interface that its frames are forwarded to.
        self._far = {f"{link.index}{side}": f"c{link.index}{_OTHER[side]}" for link in fabric.links for side in "ab"}
        self._lock = threading.Lock()

    # --- life cycle -------------------------------------------------------------------------------------------------

    def build(self, namespaces: Mapping[str, int]) -> None:
        """Make all cables between nodes whose namespaces (descriptors) are given, and bring everything up.

        The lab's own namespace is created here.
        """
        self.descriptor = kernel.create_namespace(self.namespace)
        kernel.silence(self.descriptor)
        self._links = kernel.LinkSocket(self.descriptor)
        self._links.add_pairs(self._pairs(namespaces))
        kernel.nft_batch(self.descriptor, self._ruleset())
        flags = kernel.IFF_UP | kernel.IFF_NOARP
        self._links.set_flags((index, flags, flags | kernel.IFF_MULTICAST) for index in self._index.values())
        for namespace in namespaces.values():
            kernel.bring_up(namespace, flags, flags | kernel.IFF_MULTICAST)

    def close(self) -> None:
        """Close the namespace's descriptor; the run state removes it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if self._links is not None:
            self._links.close()
            self._links = None

    # --- carrier ----------------------------------------------------------------------------------------------------

    def down(self, *links: Link | str) -> float:
        """Take the carrier from both ports of these cables, all at once; returns the monotonic time when it is done."""
        return self._carrier(links, up=False)

    def up(self, *links: Link | str) -> float:
        """Give the carrier back; returns the monotonic time when it is done."""
        return self._carrier(links, up=True)

    def hold_down(self, owner: str, *links: Link | str) -> float:
        """Take the carrier from these cables until `owner` releases them. Returns the time."""
        for link in links:
            self._down_by.setdefault(self._resolve(link).index, set()).add(owner)
        return self.down(*links)

    def release(self, owner: str) -> float:
        """Give the carrier back to the cables of `owner` that no other owner holds down. Returns the time."""
        free = []
        for index, owners in list(self._down_by.items()):
            if owner in owners:
                owners.discard(owner)
                if not owners:
                    del self._down_by[index]
                    free.append(self._fabric.links[index])
        return self.up(*free)

    def is_up(self, link: Link | str) -> bool:
        """Return True if the cable has not been taken down."""
        return self._resolve(link).index not in self._down

    def _carrier(self, links: tuple[Link | str, ...], *, up: bool) -> float:
        resolved = [self._resolve(link) for link in links]
        # A NIC sees the cable last when it comes and first when it goes: it never sends into half a cable.
        sides = [f"{link.index}{side}" for side in ("ba" if up else "ab") for link in resolved]
        with self._lock:
            if self._links is None:
                raise EmulationError("the cables do not exist yet; start the fabric first")
            flag = kernel.IFF_UP if up else 0
            self._links.set_flags((self._index[side], flag, kernel.IFF_UP) for side in sides)
            now = time.monotonic()
            for link in resolved:
                (self._down.discard if up else self._down.add)(link.index)
        return now

    # --- faults on packets ------------------------------------------------------------------------------------------

    def inject(
        self, link: Link | str, action: Action, *, match: Match = EVERY_PACKET, direction: Direction = "both"
    ) -> AppliedFault:
        """Inject a fault on the packets of a cable. Faults on one cable add up in the order they were injected."""
        return self.inject_all([(link, action)], match=match, direction=direction)[0]

    def inject_all(
        self,
        places: Sequence[tuple[Link | str, Action]],
        *,
        match: Match = EVERY_PACKET,
        direction: Direction = "both",
    ) -> list[AppliedFault]:
        """Inject faults on several cables at the same moment, an action for each."""
        with self._lock:
            faults = [
                AppliedFault(number, self._resolve(link), _SIDES[direction], match, action)
                for number, (link, action) in enumerate(places, self._next_fault)
            ]
            batch = ""
            for fault in faults:
                batch += "".join(cablefaults.install(_TABLE, name, match, fault.action) for name in fault.names())
                batch += "".join(_jump(fault, side) for side in fault.sides)
            kernel.nft_batch(self.descriptor, batch)
            self._next_fault += len(faults)
            self._faults.update({fault.number: fault for fault in faults})
        return faults

    def clear(self, *faults: AppliedFault) -> Count:
        """End faults; return the sum of their exact counts. One that was cleared already counts 0."""
        with self._lock:
            mine = {fault for fault in faults if fault.number in self._faults}
            if not mine:
                return Count(0, 0)
            others = {number: fault for number, fault in self._faults.items() if fault not in mine}
            batch = ""
            for index, side in {(fault.link.index, side) for fault in mine for side in fault.sides}:
                batch += f"flush chain {_TABLE} f{index}{side}\n"
                still = [f for f in others.values() if f.link.index == index and side in f.sides]
                batch += "".join(_jump(fault, side) for fault in still)
            kernel.nft_batch(self.descriptor, batch)  # no packet reaches the counters from here on
            count = self._count(*mine)
            removal = "".join(cablefaults.uninstall(_TABLE, name) for fault in mine for name in fault.names())
            kernel.nft_batch(self.descriptor, removal)
            self._faults = others
        return count

    def clear_all(self) -> None:
        """End all faults, the last one first, undo swaps, and bring all cables up."""
        for fault in reversed(list(self._faults.values())):
            self.clear(fault)
        with self._lock:
            right = {me: f"c{me[:-1]}{_OTHER[me[-1]]}" for me in self._far}
            self._join(
                {me: far for me, far in right.items() if self._far[me] != far},
                {me: False for me, used in self._detours.items() if used},
            )
        self._down_by.clear()
        self.up(*(link for link in self._fabric.links if link.index in self._down))

    def count(self, *faults: AppliedFault) -> Count:
        """Return the counters of faults in force, all together."""
        with self._lock:
            return self._count(*faults)

    def swap(self, one: Link | str, other: Link | str) -> None:
        """Connect the far (b) end of each of two cables to the port of the other; swapping again undoes it."""
        first, second = self._resolve(one).index, self._resolve(other).index
        with self._lock:
            far_one, far_two = self._far[f"{first}a"], self._far[f"{second}a"]
            joints = {f"{first}a": far_two, f"{second}a": far_one}
            joints |= {far_two[1:]: f"c{first}a", far_one[1:]: f"c{second}a"}
            self._join(joints, {})

    def forwarded(self, link: Link | str) -> tuple[int, int]:
        """Packets that the cable has carried (up, down)."""
        index = self._resolve(link).index
        counters = kernel.nft_counters(self.descriptor)
        return counters[f"w{index}a"], counters[f"w{index}b"]

    # --- detours through a relay ------------------------------------------------------------------------------------

    def make_detour(self, link: Link | str, direction: Direction) -> list[tuple[str, str]]:
        """Prepare a detour; returns per direction the interface a relay has to read and the one it has to write."""
        index = self._resolve(link).index
        names = [f"{index}{side}" for side in _SIDES[direction]]
        with self._lock:
            missing = [name for name in names if name not in self._detours]
            self._create_detours(missing)
            self._detours.update(dict.fromkeys(missing, False))
            return [(f"q{name}", self._far[name]) for name in names]

    def use_detour(self, link: Link | str, direction: Direction, *, use: bool) -> None:
        """Send frames on the detour from now on, or straight again. Packet faults act before it, carrier after it."""
        index = self._resolve(link).index
        with self._lock:
            self._join({}, {f"{index}{side}": use for side in _SIDES[direction]})

    # --- inside -----------------------------------------------------------------------------------------------------

    def _resolve(self, link: Link | str) -> Link:
        return self._fabric.link(link) if isinstance(link, str) else link

    def _pairs(self, namespaces: Mapping[str, int]) -> Iterator[kernel.VethPair]:
        mtu = self._fabric.spec.interface_mtu
        for link in self._fabric.links:
            for side, end in zip("ab", link.ends, strict=True):
                name = f"{link.index}{side}"
                space = namespaces[end.node]
                yield kernel.VethPair(f"c{name}", end.interface, mtu, self._index[name], end.mac, space)

    def _create_detours(self, names: list[str]) -> None:
        if self._links is None:
            raise EmulationError("the cables do not exist yet; start the fabric first")
        mtu = self._fabric.spec.interface_mtu
        self._links.add_pairs(kernel.VethPair(f"r{name}", f"q{name}", mtu) for name in names)
        indexes = self._links.indexes()
        flags = kernel.IFF_UP | kernel.IFF_NOARP
        self._links.set_flags((indexes[f"{end}{name}"], flags, flags) for name in names for end in "rq")

    def _ruleset(self) -> str:
        lines = [f"table {_TABLE} {{"]
        for link in self._fabric.links:
            for side in "ab":
                me = f"{link.index}{side}"
                lines.append(f"counter w{me} {{ }}")
                lines.append(f"chain f{me} {{ }}")
                hook = f'type filter hook ingress device "c{me}" priority 0;'
                lines.append(f"chain in{me} {{ {hook} {_forward(me, self._far[me])} }}")
        return "\n".join([*lines, "}"]) + "\n"

    def _join(self, far: Mapping[str, str], detours: Mapping[str, bool]) -> None:
        """Send frames of some sides elsewhere, all in one transaction; nothing has changed where that is refused."""
        all_far, all_detours = {**self._far, **far}, {**self._detours, **detours}
        batch = ""
        for me in {**far, **detours}:
            rules = _forward(me, f"r{me}" if all_detours.get(me) else all_far[me]).split(";")
            batch += f"flush chain {_TABLE} in{me}\n"
            batch += "".join(f"add rule {_TABLE} in{me} {rule.strip()}\n" for rule in rules if rule)
        if batch:
            kernel.nft_batch(self.descriptor, batch)
        self._far, self._detours = all_far, all_detours

    def _count(self, *faults: AppliedFault) -> Count:
        counters = kernel.nft_counters(self.descriptor)
        names = [name for fault in faults for name in fault.names()]
        return Count(sum(counters[f"s{name}"] for name in names), sum(counters[f"n{name}"] for name in names))


def _forward(me: str, target: str) -> str:
    """The rules by which frames of one side meet its faults and go on."""
    return f'jump f{me}; counter name "w{me}" fwd to "{target}";'


def _jump(fault: AppliedFault, side: str) -> str:
    """The line of an nft batch by which frames of one side meet a fault."""
    return f"add rule {_TABLE} f{fault.link.index}{side} jump m{fault.number}{side}\n"
