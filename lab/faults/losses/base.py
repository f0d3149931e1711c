"""Base class of loss models, and their registry."""

import random
from collections.abc import Iterator

from mrclab.lab.kinds import Kinds
from mrclab.lab.scenario.base import OfKind


class LossModelBase(OfKind):
    """Fields of every kind: none."""

    def lost(self, draw: random.Random) -> Iterator[int]:
        """Yield the numbers of the packets that are lost, ascending, from 0; without end, or until no more is lost."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """Describe the loss in one phrase, such as `1% of packets, in bursts`."""
        raise NotImplementedError


LOSS_MODELS: Kinds[LossModelBase] = Kinds("loss model", "mrclab.loss_models")
"""All loss models; complete once `mrclab.lab.faults.losses` is imported."""
