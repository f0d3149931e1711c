"""Interface between a host and the NIC that carries it: a raw socket per port, or virtual time.

The transport gives frames and takes them (`Transport`, `Frame`); the NIC has ports (`NicPorts`) and the loop that calls
everything on the host at its time (`Loop`). Times are seconds of the loop's clock, which never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mrclab.topo.config.nodeconfig import NicPortConfig, NodeConfig
from mrclab.topo.numbers import FULL_HEADER_BYTES, ROCE_HEADER_BYTES

MRC_OPCODE_AT: Final = 14 + 40 + 40 + 8
"""Offset of BTH's opcode in an MRC frame: behind Ethernet, two IPv6 headers and UDP."""

FrameHandler = Callable[[bytes | memoryview, float], bool]
"""Takes a frame, which begins with Ethernet, and the time in seconds; returns False where the frame is not for it."""


def full_size(config: NodeConfig) -> int:
    """Return the bytes of a full packet on the wire, by the transport of a node config."""
    return config.path_mtu + (ROCE_HEADER_BYTES if config.transport.kind == "roce" else FULL_HEADER_BYTES)


class Frame(Protocol):
    """A frame to send, in parts; `payload` is a view of the memory it is sent from."""

    @property
    def header(self) -> bytes:
        """Everything before the payload."""

    @property
    def payload(self) -> memoryview | None:
        """Payload in the memory that it is sent from."""

    @property
    def trailer(self) -> bytes:
        """Everything after the payload."""

    @property
    def wire_len(self) -> int:
        """Bytes for which the link is busy."""


class Transport:
    """Interface that the NIC expects of a host's transport; `hosts.mrc.endpoint.MrcEndpoint` in the lab.

    A class and no protocol, as compiled calls find the methods of a class by their place.
    """

    on_work: Callable[[], None]
    """Callback for new frames to send; set by a NIC that needs it."""

    def receive(self, port: int, frame: Any, now: float) -> None:
        """Take in a frame; the buffer belongs to the caller again afterwards."""
        raise NotImplementedError

    def next_frame(self, port: int, now: float) -> Frame | None:
        """Return the frame to send on a port that has space now; None if there is none."""
        raise NotImplementedError

    def has_work(self, port: int, now: float) -> bool:
        """Return True if `next_frame` may return a frame for this port; True when in doubt."""
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        """Return the time of the next `on_timer` call."""
        raise NotImplementedError

    def not_before(self) -> float:
        """Return a lower bound of `next_deadline`, which is cheaper to compute; infinity if there is none."""
        raise NotImplementedError

    def on_timer(self, now: float) -> None:
        """Handle all deadlines up to now."""
        raise NotImplementedError

    def port_event(self, port: int, up: bool, now: float) -> None:
        """A port lost or gained carrier."""
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


class NicPorts(Protocol):
    """The ports of a host's NIC."""

    @property
    def ports(self) -> Sequence[WirePort]:
        """All ports by number."""

    def inject(self, port: int, frame: Frame) -> None:
        """Send a frame of the NIC's own before the next of the transport's, if the port is up."""

    def divert(self, opcode: int, handler: FrameHandler) -> None:
        """Offer MRC packets with an opcode to `handler(frame, now)`; those it accepts do not reach the transport."""

    def configure(self, config: NodeConfig) -> None:
        """Apply a new delay and rate."""

    def load(self) -> dict[str, Any]:
        """Return a sample of the load of the NIC and of its machine.

        `cpu` (seconds used), `delayed_frames` (held for the links' delay), `delay_line_drops`.
        """

    def lateness(self) -> dict[str, float]:
        """Return `late` and `receive_late`: most lateness of sending and delivery since the last call, seconds."""


class Loop(Protocol):
    """Scheduler of a host's work."""

    @property
    def now(self) -> float:
        """Time of the event that is being handled; it never goes back."""

    def every(self, interval: float, work: Callable[[float], None]) -> None:
        """Call `work(now)` every `interval` seconds, first after one; a late call does not shift the next."""

    def call_soon(self, work: Callable[[float], None]) -> None:
        """Call `work(now)` once, before the next frame is sent."""

    def until_done(self, interval: float, step: Callable[[float], bool]) -> None:
        """Call `step(now)` every `interval` seconds, first at once, until it returns False."""


class HostNic(Loop, NicPorts, Protocol):
    """A NIC: the ports, and the loop that serves them and the host."""
