"""Interface between a host and the NIC that carries it: a raw socket per port, or virtual time.

The transport gives frames and takes them (`Transport`, `Frame`); the NIC has ports (`Wire`) and the loop that calls
everything on the host at its time (`Loop`). Times are seconds of the loop's clock, which never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mrclab.topo.nodeconfig import NicPortConfig, NodeConfig
from mrclab.topo.numbers import FULL_HEADER_BYTES

HEADER_BYTES: Final = FULL_HEADER_BYTES
"""Bytes that a full packet adds to its payload."""

ROCE_HEADER_BYTES: Final = 78
"""The same for RoCEv2: Ethernet 14, IPv6 40, UDP 8, BTH 12, ICRC 4."""

Taker = Callable[[bytes | memoryview, float], bool]


def full_size(config: NodeConfig) -> int:
    """Bytes of a full packet on the wire, by the transport of a node config."""
    return config.path_mtu + (ROCE_HEADER_BYTES if config.transport.kind == "roce" else HEADER_BYTES)


class Frame(Protocol):
    """A frame to send, in parts; `payload` is a view of the memory it is sent from."""

    @property
    def header(self) -> bytes:
        """Everything before the payload."""

    @property
    def payload(self) -> memoryview | None:
        """The payload where it lies."""

    @property
    def trailer(self) -> bytes:
        """Everything after the payload."""

    @property
    def wire_len(self) -> int:
        """Bytes that the link is busy for."""


class Transport:
    """Interface that the NIC expects of a host's transport; `hosts.mrc.endpoint.MrcEndpoint` in the lab.

    A class and no protocol, as compiled calls find the methods of a class by their place.
    """

    on_work: Callable[[], None]
    """Called when there may be something to send that was not there before; the NIC sets it where it wants to know."""

    def receive(self, port: int, frame: Any, now: float) -> None:
        """Take a frame; the buffer is the caller's again afterwards."""
        raise NotImplementedError

    def next_frame(self, port: int, now: float) -> Frame | None:
        """Give the frame to send on a port that has space now; None when there is nothing to send there."""
        raise NotImplementedError

    def has_work(self, port: int, now: float) -> bool:
        """Say whether `next_frame` would find something for this port if it had space now; True where in doubt."""
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        """Say when `on_timer` wants to be called."""
        raise NotImplementedError

    def not_before(self) -> float:
        """A time before which `next_deadline` is not, infinity where there is none: quicker, and mostly all to know."""
        raise NotImplementedError

    def on_timer(self, now: float) -> None:
        """Do what is due."""
        raise NotImplementedError

    def port_event(self, port: int, up: bool, now: float) -> None:
        """Take note that a port lost or got carrier."""
        raise NotImplementedError


class PortCounters(NamedTuple):
    """Counters of one port since the start."""

    port: int
    up: bool
    tx_packets: int
    tx_bytes: int
    rx_packets: int
    rx_bytes: int
    tx_errors: int
    other_frames: int
    socket_drops: int


class WirePort(Protocol):
    """One port of a NIC as its host sees it."""

    number: int
    config: NicPortConfig
    up: bool

    def counters(self) -> PortCounters:
        """Return all counters."""


class Wire(Protocol):
    """The ports of a host's NIC."""

    @property
    def ports(self) -> Sequence[WirePort]:
        """All of them, by number."""

    def inject(self, port: int, frame: Frame) -> None:
        """Send a frame that is not the transport's before the next of the transport's, if the port is up."""

    def divert(self, taker: Taker) -> None:
        """Offer endpoint requests to `taker(frame, now)` first; those that it takes do not reach the transport."""

    def configure(self, config: NodeConfig) -> None:
        """Take a changed delay and rate."""

    def strain(self) -> dict[str, Any]:
        """Return a sample of the load of the NIC and of its machine.

        `cpu` (seconds used), `delayed_frames` (held for the links' delay), `delay_line_drops`.
        """

    def lateness(self) -> dict[str, float]:
        """`late` and `receive_late`: by how much anything was sent or delivered too late, seconds, since last asked."""


class Loop(Protocol):
    """Scheduler of a host's work."""

    @property
    def now(self) -> float:
        """Time of the event that is being handled; never goes back."""

    def every(self, interval: float, work: Callable[[float], None]) -> None:
        """Call `work(now)` every `interval` seconds, first after one; a late call does not shift the next."""

    def soon(self, work: Callable[[float], None]) -> None:
        """Call `work(now)` once, before the next frame is sent."""

    def until_done(self, interval: float, step: Callable[[float], bool]) -> None:
        """Call `step(now)` every `interval` seconds, first at once, until it returns False."""


class Carrier(Loop, Wire, Protocol):
    """A NIC: the ports, and the loop that serves them and the host."""
