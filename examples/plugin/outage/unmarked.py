"""The path selection `unmarked`: the EV with the smallest recent share of ECN-marked packets."""

import random
from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.topo.config.algorithms import PATH_SELECTIONS
from mrclab.topo.config.registry import Setting


class Unmarked(PathSelection):
    """Choose the EV with the smallest moving average of marks; a random one of several equal ones."""

    name: ClassVar[str] = "unmarked"
    settings: ClassVar[Mapping[str, Setting]] = {"weight": Setting("weight of the newest packet", 0.01, 1)}
    uses_skip: ClassVar[bool] = False

    def __init__(self, rng: random.Random, weight: float = 0.25) -> None:
        self.rng = rng
        self.weight = weight
        self.marked: dict[int, float] = {}  # EV value → moving average of marks, 0 to 1

    @override
    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        others = [ev for ev in active if ev is not avoid] or active
        return min(others, key=lambda ev: (self.marked.get(ev.value, 0.0), self.rng.random()))

    @override
    def on_ack(self, ev: Ev) -> None:
        self.marked[ev.value] = (1 - self.weight) * self.marked.get(ev.value, 0.0)

    @override
    def on_mark(self, ev: Ev) -> None:
        self.marked[ev.value] = self.marked.get(ev.value, 0.0) + self.weight


PATH_SELECTIONS.register(Unmarked)
