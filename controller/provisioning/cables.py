"""Cable verification: which port is at the other end of each cable, by link-check frames. Pure: frames in, frames out.

A probe leaves a switch port by packet-out. Another switch hands it to the controller by packet-in, which shows where it
arrived; a NIC answers it with its own name, and the reply comes in at the switch that sent the probe.
"""

import itertools
from collections.abc import Iterable
from typing import Literal, NamedTuple

from mrclab.topo import linkcheck
from mrclab.topo.model import Fabric, SwitchPort, mac_bytes

LinkState = Literal["verified", "wrong", "silent"]


class End(NamedTuple):
    """A port of a node."""

    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node} port {self.port}"


class ProbeArrival(NamedTuple):
    """A link-check frame sent out of `origin` came to `reached`."""

    link: str
    origin: End
    expected: End
    reached: End

    @property
    def right(self) -> bool:
        """True if the cable ends where the fabric says."""
        return self.reached == self.expected


class CableStates:
    """Verification state of every cable. Its ends are switch ports: two between switches, one towards a NIC.

    Only unverified ends are stored; with `known` all are verified from the start, as in a simulated fabric.
    """

    def __init__(self, fabric: Fabric, known: bool = False) -> None:
        self._fabric = fabric
        self._unverified: dict[End, None] = {} if known else dict.fromkeys(self.ends)
        self._seen: dict[End, End] = {}  # where the probes of unverified ends came to, if they came anywhere
        self._outstanding: dict[int, End] = {}
        self._nonces = itertools.count(1)

    @property
    def ends(self) -> list[End]:
        """Every port of every switch."""
        return [End(switch.name, port.number) for switch in self._fabric.switches for port in switch.ports]

    def ends_of(self, node: str) -> list[End]:
        """The ends of the cables of a switch, on it and on its neighbours."""
        found = []
        for port in self._fabric.switch(node).ports:
            found.append(End(node, port.number))
            if not port.to_host:
                found.append(End(port.peer.node, port.peer.number))
        return found

    def ends_of_link(self, link: str) -> list[End]:
        """The ends of a cable that are ports of switches."""
        ends = (End(ref.node, ref.number) for ref in self._fabric.link(link).ends)
        return [end for end in ends if self._fabric.has_switch(end.node)]

    @property
    def settled(self) -> bool:
        """True if every cable is verified."""
        return not self._unverified

    def pending(self) -> list[End]:
        """Ends whose cable is not verified."""
        return sorted(self._unverified, key=self._place)

    def forget(self, ends: Iterable[End] | None = None) -> None:
        """Mark `ends` (default: all) as unverified again; replies still in flight do not count."""
        gone = dict.fromkeys(self.ends if ends is None else ends)
        self._unverified |= gone
        self._seen = {end: peer for end, peer in self._seen.items() if end not in gone}
        self._outstanding = {nonce: end for nonce, end in self._outstanding.items() if end not in gone}

    def probe(self, end: End) -> bytes:
        """A frame to send out of `end`."""
        nonce = next(self._nonces) & 0xFFFF_FFFF
        self._outstanding[nonce] = end
        return linkcheck.probe(end.node, end.port, nonce, mac_bytes(self._port(end).mac))

    def arrived(self, switch: str, port: int, frame: bytes) -> ProbeArrival | None:
        """Take a frame that came in at a switch; None for one that we did not send or that shows nothing new."""
        try:
            check = linkcheck.parse(frame)
        except linkcheck.LinkCheckError:
            return None
        origin = self._outstanding.get(check.nonce)
        if origin is None or origin != (check.origin, check.origin_port):
            return None
        here = End(switch, port)
        if check.kind is linkcheck.Kind.ANSWER:
            # A reply that arrives by another port than the probe left by: two cables, each good for one direction.
            reached = End(check.answer_name, check.answer_port) if here == origin else here
        else:
            reached = here
        del self._outstanding[check.nonce]
        known = self._port(origin)
        peer = _peer(known)
        if reached == (self._seen.get(origin) if origin in self._unverified else peer):
            return None
        if reached == peer:
            self._unverified.pop(origin, None)
            self._seen.pop(origin, None)
        else:
            self._unverified[origin] = None
            self._seen[origin] = reached
        return ProbeArrival(known.link, origin, peer, reached)

    def state(self, link: str) -> LinkState:
        """Return the state of one cable."""
        seen = [self._seen.get(end) for end in self.ends_of_link(link) if end in self._unverified]
        if not seen:
            return "verified"
        return "wrong" if any(reached is not None for reached in seen) else "silent"

    def links(self, state: LinkState) -> list[str]:
        """Names of all cables in `state`."""
        ends = self._seen if state == "wrong" else self._unverified  # called often while thousands are unverified
        unverified = {self._port(end).link for end in ends}
        if state == "verified":
            return [link.name for link in self._fabric.links if link.name not in unverified]
        found = [self._fabric.link(name) for name in unverified if self.state(name) == state]
        return [link.name for link in sorted(found, key=lambda link: link.index)]

    def count_verified(self, silent: Iterable[str] = ()) -> int:
        """Number of verified cables without an end at a switch of `silent`."""
        unverified = {self._port(end).link for end in self._unverified}
        for switch in silent:
            unverified.update(port.link for port in self._fabric.switch(switch).ports)
        return len(self._fabric.links) - len(unverified)

    def problems_of(self, link: str) -> list[str]:
        """One sentence for each direction of a cable that ends elsewhere; if none does, for each without a reply."""
        unverified = [end for end in self.ends_of_link(link) if end in self._unverified]
        seen = [(end, _peer(self._port(end)), self._seen.get(end)) for end in unverified]
        misconnected = [f"{end} should reach {peer}, reaches {at}" for end, peer, at in seen if at is not None]
        return misconnected or [f"{end} should reach {peer}, reaches nothing" for end, peer, at in seen if at is None]

    def problems(self) -> list[str]:
        """One sentence for each direction of each cable that is not right."""
        return [text for link in [*self.links("wrong"), *self.links("silent")] for text in self.problems_of(link)]

    def _port(self, end: End) -> SwitchPort:
        return self._fabric.switch(end.node).port(end.port)

    def _place(self, end: End) -> tuple[int, int]:
        return self._fabric.switch_place(end.node), end.port


def _peer(port: SwitchPort) -> End:
    return End(port.peer.node, port.peer.number)
