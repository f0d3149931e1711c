"""Round robin: each QP sends one packet in turn; done by the endpoint itself."""

from __future__ import annotations

from typing import ClassVar

from mrclab.hosts.mrc.scheduling import QpScheduler
from mrclab.topo.config.algorithms import QP_SCHEDULERS


class RoundRobin(QpScheduler):
    """One packet of each QP in turn."""

    name: ClassVar[str] = "round_robin"


QP_SCHEDULERS.register(RoundRobin)
