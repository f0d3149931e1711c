"""The QP scheduler `newest`: of those that may send, the QP that was made last."""

from typing import ClassVar

from typing_extensions import override

from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.mrc.scheduling import QpScheduler
from mrclab.topo.config.algorithms import QP_SCHEDULERS


class Newest(QpScheduler):
    """The QP with the largest number."""

    name: ClassVar[str] = "newest"

    @override
    def choose(self, waiting: list[MrcQueuePair]) -> int:
        return max(range(len(waiting)), key=lambda place: waiting[place].qpn)


QP_SCHEDULERS.register(Newest)
