"""Which port really is at the other end of each cable, as link-check frames show it. Pure: frames in, frames out.

A probe leaves a switch port by packet-out. Another switch hands it to the controller by packet-in, which tells where it
arrived; a NIC answers it with its own name, and the answer comes in at the switch that asked.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mrclab.topo import linkcheck
from mrclab.topo.model import Fabric, Link, mac_bytes

LinkState = Literal["verified", "wrong", "silent"]


class End(NamedTuple):
    """A port of a node."""

    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node} port {self.port}"


@dataclass(frozen=True)
class Sighting:
    """A link-check frame sent out of `origin` came to `reached`."""

    link: str
    origin: End
    expected: End
    reached: End

    @property
    def right(self) -> bool:
        """Whether the cable leads where the fabric says."""
        return self.reached == self.expected


class CableBook:
    """What is known about every cable. Its ends are switch ports: two where it joins switches, one towards a NIC."""

    def __init__(self, fabric: Fabric) -> None:
        self._links: dict[str, Link] = {link.name: link for link in fabric.links}
        self._peers: dict[End, End] = {}
        self._names: dict[End, str] = {}
        self._macs: dict[End, bytes] = {}
        for switch in fabric.switches:
            for port in switch.ports:
                end = End(switch.name, port.number)
                self._peers[end] = End(port.peer.node, port.peer.number)
                self._names[end] = port.link
                self._macs[end] = mac_bytes(port.mac)
        self._seen: dict[End, End] = {}
        self._asked: dict[int, End] = {}
        self._nonces = itertools.count(1)

    @property
    def ends(self) -> tuple[End, ...]:
        """Every port of every switch."""
        return tuple(self._peers)

    def pending(self) -> list[End]:
        """Ends whose cable has not been seen to lead where it should."""
        return [end for end, peer in self._peers.items() if self._seen.get(end) != peer]

    def forget(self, ends: Iterable[End] | None = None) -> None:
        """Take what was seen at `ends` (default: all) as unknown again; answers still under way do not count."""
        gone = set(self._peers if ends is None else ends)
        self._seen = {end: peer for end, peer in self._seen.items() if end not in gone}
        self._asked = {nonce: end for nonce, end in self._asked.items() if end not in gone}

    def probe(self, end: End) -> bytes:
        """A frame to send out of `end`."""
        nonce = next(self._nonces) & 0xFFFF_FFFF
        self._asked[nonce] = end
        return linkcheck.probe(end.node, end.port, nonce, self._macs[end])

    def arrived(self, switch: str, port: int, frame: bytes) -> Sighting | None:
        """Take a frame that came in at a switch; None for one that we did not ask for or that tells nothing new."""
        try:
            check = linkcheck.parse(frame)
        except linkcheck.LinkCheckError:
            return None
        origin = self._asked.get(check.nonce)
        if origin is None or origin != (check.origin, check.origin_port):
            return None
        here = End(switch, port)
        if check.kind is linkcheck.Kind.ANSWER:
            # An answer that comes in by another port than the probe left by: two cables, each good for one direction.
            reached = End(check.answer_name, check.answer_port) if here == origin else here
        else:
            reached = here
        del self._asked[check.nonce]
        if self._seen.get(origin) == reached:
            return None
        self._seen[origin] = reached
        return Sighting(self._names[origin], origin, self._peers[origin], reached)

    def state(self, link: str) -> LinkState:
        """What is known about one cable."""
        seen = [(end, self._seen.get(end)) for end in self._ends_of(link)]
        if all(reached == self._peers[end] for end, reached in seen):
            return "verified"
        return "silent" if all(reached in {None, self._peers[end]} for end, reached in seen) else "wrong"

    def links(self, state: LinkState) -> list[str]:
        """Names of all cables in `state`."""
        return [name for name in self._links if self.state(name) == state]

    def complaints(self, link: str) -> list[str]:
        """One sentence for each direction of a cable that leads elsewhere; where none does, for each without answer."""
        seen = [(end, self._peers[end], self._seen.get(end)) for end in self._ends_of(link)]
        astray = [f"{end} should reach {peer}, reaches {at}" for end, peer, at in seen if at not in {peer, None}]
        return astray or [f"{end} should reach {peer}, reaches nothing" for end, peer, at in seen if at is None]

    def _ends_of(self, link: str) -> Iterator[End]:
        for ref in self._links[link].ends:
            end = End(ref.node, ref.number)
            if end in self._peers:
                yield end
