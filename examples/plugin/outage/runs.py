"""The loss model `runs`: bursts of lost packets at regular distances."""

import itertools
import random
from collections.abc import Iterator
from typing import Literal

from pydantic import Field
from typing_extensions import override

from mrclab.lab.faults.losses import LOSS_MODELS, LossModelBase


@LOSS_MODELS.register
class Runs(LossModelBase):
    """The first `length` packets of every period are lost."""

    kind: Literal["runs"]
    length: int = Field(ge=1, description="packets in a row")
    every: int = Field(ge=2, description="packets from one run to the next")

    @override
    def lost(self, draw: random.Random) -> Iterator[int]:
        return (number for number in itertools.count() if number % self.every < self.length)

    @property
    @override
    def text(self) -> str:
        return f"{self.length} of every {self.every} packets"
