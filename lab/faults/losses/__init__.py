"""Loss models: which packets of a cable are lost, in the fault `loss` by its field `model`.

A kind is one class in one module here (or of another package, by the entry point group `mrclab.loss_models`),
registered with `@LOSS_MODELS.register`. The packets of a cable are drawn before the run, from the seed, and the same
are lost on the wire and in virtual time.
"""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.faults.losses.base import LOSS_MODELS, LossModelBase

LOSS_MODELS.define("mrclab.lab.faults.losses")

from mrclab.topo.cables.cablefaults import LONG_CYCLE, LossCycle  # noqa: E402

if TYPE_CHECKING:
    LossModel: TypeAlias = LossModelBase
else:
    LossModel = LOSS_MODELS.union()

__all__ = ["LOSS_MODELS", "LossModel", "LossModelBase", "cycle"]


def cycle(model: LossModelBase, seed: str, draws: int) -> LossCycle:
    """Return the packets that a model loses on one cable: `draws` of them at most, in a cycle that then repeats."""
    lost: list[int] = []
    for number in _ascending(model, seed):
        if number >= LONG_CYCLE:
            break
        if len(lost) == draws:
            return LossCycle(number, tuple(lost))
        lost.append(number)
    return LossCycle(LONG_CYCLE, tuple(lost))


def _ascending(model: LossModelBase, seed: str) -> Iterator[int]:
    before = -1
    for number in model.lost(random.Random(seed)):
        if number <= before:
            raise ValueError(f"loss model {model.kind_name} draws packet {number} after {before}; let it count upwards")
        yield number
        before = number
