"""The path selection `unmarked`: the EV with the smallest share of marked packets, of late."""

import random
from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.topo.config.algorithms import PATH_SELECTIONS
from mrclab.topo.config.registry import Setting


class Unmarked(PathSelection):
    """EVs by a moving average of their marks; a random one of those that are alike."""

    name: ClassVar[str] = "unmarked"
    settings: ClassVar[Mapping[str, Setting]] = {"weight": Setting("weight of the newest packet", 0.01, 1)}
    uses_skip: ClassVar[bool] = False

    def __init__(self, rng: random.Random, weight: float = 0.25) -> None:
        self.rng = rng
        self.weight = weight
        self.marked: dict[int, float] = {}  # by EV value: share of packets

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
