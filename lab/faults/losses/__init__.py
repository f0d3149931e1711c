"""Loss models: which packets of a cable are lost, in the fault `loss` by its field `model`.

A kind is one class in one module here (or of another package, by the entry point group `mrclab.loss_models`),
registered with `@LOSS_MODELS.register`. The packets of a cable are drawn before the run, from the seed, and the same
are lost on the wire and in virtual time.
"""

import random
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from mrclab.lab.kinds import Kinds
from mrclab.lab.scenario.base import OfKind
from mrclab.topo.cables.cablefaults import LONG_CYCLE, LossCycle
from mrclab.topo.config.registry import KindError


class LossModelBase(OfKind):
    """Fields of every kind: none."""

    @abstractmethod
    def lost(self, draw: random.Random) -> Iterator[int]:
        """Yield the numbers of the packets that are lost, ascending, from 0; without end, or until no more is lost."""
        raise NotImplementedError

    @property
    @abstractmethod
    def text(self) -> str:
        """Describe the loss in one phrase, such as `1% of packets, in bursts`."""
        raise NotImplementedError


LOSS_MODELS: Kinds[LossModelBase] = Kinds("loss model", "mrclab.loss_models", "mrclab.lab.faults.losses")

if TYPE_CHECKING:
    LossModel: TypeAlias = LossModelBase
else:
    LossModel = LOSS_MODELS.union()


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
        if not isinstance(number, int) or number <= before:
            raise KindError(f"loss model {model.kind_name} draws packet {number} after {before}; let it count upwards")
        yield number
        before = number
