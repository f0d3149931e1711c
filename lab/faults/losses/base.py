"""Base class of loss models, and their registry."""

import random
from collections.abc import Iterator

from mrclab.lab.kinds import Kinds, kind_of
from mrclab.lab.scenario.base import Strict


class LossModelBase(Strict):
    """Fields of every kind: none."""

    @property
    def kind_name(self) -> str:
        """The value of `kind`."""
        return kind_of(type(self)) or ""

    def lost(self, draw: random.Random) -> Iterator[int]:
        """Yield the numbers of the packets that are lost, ascending, from 0; without end, or until no more is lost."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """Describe the loss in one phrase, such as `1% of packets, in bursts`."""
        raise NotImplementedError


LOSS_MODELS: Kinds[LossModelBase] = Kinds("loss model", "mrclab.loss_models")
"""All loss models; complete once `mrclab.lab.faults.losses` is imported."""
