"""Rate control of RoCEv2: one algorithm a module, one limiter per QP.

An algorithm is a subclass of `RateControl` with a name, in a module here or in another package (entry point group
`mrclab.congestion_controls`), registered by `CONTROLS.register(Class)` at the module's end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.settings import make_algorithm
from mrclab.hosts.roce.telemetry import Hop
from mrclab.topo.config.algorithms import CONGESTION_CONTROLS
from mrclab.topo.config.nodeconfig import DcqcnSection
from mrclab.topo.config.registry import Registry, Setting

CONTROLS: Final[Registry] = CONGESTION_CONTROLS["roce"]


@dataclass(frozen=True)
class RateFacts:
    """Facts of a QP's port and path: bytes per second, seconds, bytes of a full-size packet's payload."""

    line_rate: float
    base_rtt: float
    path_mtu: int
    dcqcn: DcqcnSection


@mypyc_attr(allow_interpreted_subclasses=True)
class RateControl:
    """Interface between requestor and rate control. Sizes are bytes, times seconds.

    Called with the facts of its QP, the time, and its `settings` as keyword arguments.
    """

    name: ClassVar[str] = ""  # in scenarios
    profile: ClassVar[str] = ""  # in node configs, where it has another name there
    telemetry: ClassVar[bool] = False  # needs telemetry that switches write into packets, and an ACK for each
    settings: ClassVar[Mapping[str, Setting]] = {}

    def rate(self, now: float) -> float | None:
        """Return the bytes per second that the QP may send now; None for line rate."""
        raise NotImplementedError

    def on_sent(self, size: int, now: float) -> None:
        """A packet of `size` bytes is sent."""

    def on_cnp(self, now: float) -> None:
        """A CNP arrived: the receiver saw a mark."""

    def window(self) -> float:
        """Return the bytes that may be in flight; 0 for the QP's own window."""
        return 0.0

    def on_telemetry(self, acked: int, sent: int, hops: Sequence[Hop], now: float) -> None:
        """An ACK of all bytes before `acked` brought telemetry, when `sent` bytes had been sent once."""

    def snapshot(self) -> dict[str, float]:
        """State for samples, at least `rate` in bytes per second."""
        raise NotImplementedError


def rate_control(name: str, facts: RateFacts, now: float, config: Mapping[str, Any]) -> RateControl:
    """A new limiter of this name; EINVAL for a name or setting that does not exist."""
    return cast(RateControl, make_algorithm(CONTROLS, name, config, facts, now))
