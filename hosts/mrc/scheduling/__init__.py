"""Schedulers of MRC: which QP of a host sends its next new packet. One algorithm a module.

An algorithm is a subclass of `QpScheduler` with a name, in a module here or in another package (entry point group
`mrclab.qp_schedulers`), registered by `QP_SCHEDULERS.register(Class)` at the module's end. Control packets, probes and
retransmissions go first in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.settings import make_algorithm
from mrclab.topo.config.algorithms import QP_SCHEDULERS
from mrclab.topo.config.registry import Setting

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

ROUND_ROBIN: Final = "round_robin"


class SendState(Enum):
    """Scheduling state of a QP."""

    RUNNABLE = 0  # its windows are open
    WINDOW_BLOCKED = 1  # there is no room in the window of its destination
    IDLE = 2  # it has nothing to send, or waits for feedback of its own


@mypyc_attr(allow_interpreted_subclasses=True)
class QpScheduler:
    """QP scheduler of one host, for all of its ports. Called with the `settings` as keyword arguments."""

    name: ClassVar[str] = ""  # in scenarios
    profile: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Setting]] = {}

    def choose(self, waiting: list[MrcQueuePair]) -> int:
        """Return the place of the QP that sends next, among those with data whose windows are open.

        There is at least one. A QP has `qpn`, `peer_text` and `backlog`, bytes that are posted and not acknowledged.
        A QP that cannot send by this port is removed, and `choose` is called again with the others.
        """
        raise NotImplementedError


def scheduler(name: str, config: Mapping[str, Any]) -> QpScheduler | None:
    """Return a new scheduler of this name; None for round robin, which an endpoint does itself at the least cost.

    EINVAL for a name or setting that does not exist.
    """
    if name == ROUND_ROBIN and not config:
        return None
    return cast(QpScheduler, make_algorithm(QP_SCHEDULERS, name, config))
