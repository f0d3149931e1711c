"""Load balancing by switches: which uplink a data packet takes, where neither its sender nor a hash decides.

The names are those of public simulators and chips: packet spraying in permuted rounds, adaptive routing by queue depth
packet by packet (ties at random), and the same flowlet by flowlet. Control packets go where they are sent, or hashed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from mrclab.sim.clock import NEVER, ticks
from mrclab.topo.numbers import FULL_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mrclab.sim.frame import Flow
    from mrclab.sim.switches.port import SimSwitchPort
    from mrclab.topo.spec import FabricSpec

_FLOWS_KEPT: Final = 65536  # of a flowlet table; a chip has some thousands


@mypyc_attr(allow_interpreted_subclasses=True)
class Balancer:
    """Chooses among the uplinks of one switch. `flowlets` is True where it needs to know whose packet it is."""

    flowlets = False

    def choose(self, outs: Sequence[SimSwitchPort], flow: Flow | None, now: int) -> int:
        """Return the place in `outs` of the port that a data packet leaves by."""
        raise NotImplementedError


class Spray(Balancer):
    """Every uplink once, in an order that is drawn again for each round."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left: list[int] = []

    def choose(self, outs: Sequence[SimSwitchPort], flow: Flow | None, now: int) -> int:
        """The next of the round that has carrier."""
        for _ in range(2 * len(outs)):
            if not self._left:
                self._left = list(range(len(outs)))
                self._rng.shuffle(self._left)
            place = self._left.pop()
            if outs[place].half_link.clear_since != NEVER:
                return place
        return 0


class Adaptive(Balancer):
    """The uplink with the shortest data queue, in whole packets; one of them at random where there are several."""

    def __init__(self, rng: random.Random, unit: int) -> None:
        self._rng = rng
        self._unit = unit

    def choose(self, outs: Sequence[SimSwitchPort], flow: Flow | None, now: int) -> int:
        """The least loaded of those that have carrier."""
        least = NEVER
        best: list[int] = []
        for place in range(len(outs)):
            port = outs[place]
            if port.half_link.clear_since == NEVER:
                continue
            depth = port.backlog(now) // self._unit
            if depth < least:
                least = depth
                best = [place]
            elif depth == least:
                best.append(place)
        if len(best) > 1:
            return best[int(self._rng.random() * len(best))]
        return best[0] if best else 0


class FlowletBalancer(Balancer):
    """A flow keeps its uplink until it pauses for longer than the gap, and then takes the least loaded one."""

    flowlets = True

    def __init__(self, adaptive: Adaptive, gap: int) -> None:
        self._adaptive = adaptive
        self._gap = gap
        self._table: dict[Flow, tuple[int, int]] = {}

    def choose(self, outs: Sequence[SimSwitchPort], flow: Flow | None, now: int) -> int:
        """The flow's own while it does not pause."""
        assert flow is not None
        known = self._table.get(flow)
        if known is not None and now - known[1] <= self._gap and outs[known[0]].half_link.clear_since != NEVER:
            place = known[0]
        else:
            place = self._adaptive.choose(outs, flow, now)
            if known is None and len(self._table) >= _FLOWS_KEPT:
                self._table.clear()
        self._table[flow] = place, now
        return place


def balancer(spec: FabricSpec, seed: str) -> Balancer | None:
    """The balancer of one switch, which draws from `seed`; None where a hash of the flow decides."""
    if spec.load_balancing == "ecmp":
        return None
    rng = random.Random(seed)
    if spec.load_balancing == "spray":
        return Spray(rng)
    adaptive = Adaptive(rng, 1 if spec.link.rate is None else spec.path_mtu + FULL_HEADER_BYTES)
    if spec.load_balancing == "adaptive":
        return adaptive
    return FlowletBalancer(adaptive, ticks(spec.gap))
