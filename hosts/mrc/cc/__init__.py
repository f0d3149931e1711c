"""Congestion control of MRC: one algorithm a module, one controller per destination, shared by its QPs.

An algorithm is a subclass of `CongestionController` with a name, in a module here or in another package (entry point
group `mrclab.congestion_controls`), registered by `CONTROLS.register(Class)` at the module's end. Names of profiles
follow the OCP headers ("uet-1.0-nscc").
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.settings import make_algorithm
from mrclab.topo.config.algorithms import CONGESTION_CONTROLS
from mrclab.topo.config.registry import Registry, Setting
from mrclab.topo.economy import EMPTY_QUEUE

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

CONTROLS: Final[Registry] = CONGESTION_CONTROLS["mrc"]
MAX_WINDOW_BDPS: Final = 1.5
"""BDPs of the largest window, and the initial one, by default: the same for all controls, so that they start alike."""


@dataclass(frozen=True)
class PathFacts:
    """Path properties that a controller knows of its destination."""

    base_rtt: float  # seconds, idle
    bdp: float  # bytes: all planes at line rate × base_rtt
    mtu: int  # nominal bytes of a full-size packet
    trimming: bool
    drop_threshold: int = 0  # packets queued at which a port drops
    plane_bdp_packets: float = 1.0  # BDP of one plane in packets
    longest_rtt: float = 0.0  # seconds, idle, to the farthest host; 0: this path is as long as any


path_facts: Final = functools.lru_cache(256)(PathFacts)
"""Path properties, one object for all paths that have the same."""


@mypyc_attr(allow_interpreted_subclasses=True)
class CongestionController:
    """Interface between requestor and congestion control. Sizes are nominal bytes (UDP length + 40), times seconds.

    Called with the facts of its path, the time, and its `settings` as keyword arguments. This class counts the bytes in
    flight and nothing else. A class and no protocol, as compiled calls find the methods of a class by their place.
    """

    name: ClassVar[str] = ""  # in scenarios
    profile: ClassVar[str] = ""  # in node configs, where it has another name there
    credit_based: ClassVar[bool] = False  # its receiver grants credit; a subclass of `rccc.Rccc`
    settings: ClassVar[Mapping[str, Setting]] = {}

    inflight: float = 0.0  # bytes

    def allows(self, size: int) -> bool:
        """Return True if a packet of this size may go out."""
        raise NotImplementedError

    def wants_ack(self) -> bool:
        """Return True if the packet that goes out now should request a SACK."""
        raise NotImplementedError

    def on_post(self, size: int, now: float) -> None:
        """Bytes, headers included, were posted."""

    def on_send(self, size: int, now: float) -> None:
        """A packet is sent."""
        self.inflight += size

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """A SACK arrived: `newly` bytes arrived, `rtt` where it is unambiguous."""
        self.inflight -= newly

    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        """A packet was refused."""
        self.inflight -= size

    def on_loss(self, size: int, now: float) -> None:
        """A packet was inferred lost."""
        self.inflight -= size

    def on_requeue(self, size: int) -> None:
        """Remove bytes from the window without a congestion signal (negative: add them back)."""
        self.inflight -= size

    def on_settled(self, size: int, now: float) -> None:
        """Remove bytes that are not retransmitted: they arrived and no SACK counted them, or were flushed."""
        self.on_requeue(size)

    def on_cancelled(self, size: int) -> None:
        """Posted bytes, or bytes of lost packets, are not sent: their QP was flushed."""

    def snapshot(self) -> dict[str, Any]:
        """State for samples, at least `cwnd` in bytes (0: no window)."""
        raise NotImplementedError


class Qpcc:
    """Window of one destination (§1.7): its controller, and the QPs that are window-blocked, in order."""

    __slots__ = ("controller", "pending")

    def __init__(self, controller: CongestionController) -> None:
        self.controller = controller
        self.pending: deque[MrcQueuePair] = EMPTY_QUEUE

    def wait(self, qp: MrcQueuePair) -> None:
        """Append a QP that waits."""
        if self.pending is EMPTY_QUEUE:
            self.pending = deque()
        self.pending.append(qp)


def controller_config(name: str, config: dict[str, Any]) -> None:
    """Check a profile's name and parameters; EINVAL for invalid ones."""
    controller(name, PathFacts(base_rtt=1e-3, bdp=1e6, mtu=1000, trimming=True), 0.0, **config)


def controller(name: str, facts: PathFacts, now: float, **config: Any) -> CongestionController:
    """A new controller of the profile `name`; EINVAL for a name or field that does not exist."""
    return cast(CongestionController, make_algorithm(CONTROLS, name, config, facts, now))
