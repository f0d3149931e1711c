"""Shortest remaining first: the QP with the smallest backlog, which shortens a host's mean completion time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from mrclab.hosts.mrc.scheduling import QpScheduler
from mrclab.topo.config.algorithms import QP_SCHEDULERS

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair


class ShortestFirst(QpScheduler):
    """The QP with the fewest bytes posted and not acknowledged; of equals the lowest QP number."""

    name: ClassVar[str] = "shortest_first"

    def choose(self, waiting: list[MrcQueuePair]) -> int:
        """Return the smallest."""
        best = 0
        for place in range(1, len(waiting)):
            one, other = waiting[place], waiting[best]
            if (one.backlog, one.qpn) < (other.backlog, other.qpn):
                best = place
        return best


QP_SCHEDULERS.register(ShortestFirst)
