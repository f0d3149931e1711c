"""Losses in bursts: the channel of Gilbert (1960) and Elliott (1963), a good and a bad state with a loss rate each."""

import math
import random
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from mrclab.lab.faults.losses import LOSS_MODELS, LossModelBase
from mrclab.lab.scenario.units import Percent


@LOSS_MODELS.register
class GilbertElliott(LossModelBase):
    """Bursts: a cable is in a good or a bad state, changes between packets, and loses a share of them in each."""

    kind: Literal["gilbert_elliott"]
    rate: Annotated[Percent, Field(gt=0, lt=1)] = Field(description="mean share of packets to lose, over all time")
    burst: Annotated[float, Field(ge=1, le=1e6)] = Field(description="mean packets that the bad state lasts")
    loss_in_bad: Annotated[Percent, Field(gt=0, le=1)] = 1.0
    loss_in_good: Annotated[Percent, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _possible(self) -> "GilbertElliott":
        if not self.loss_in_good < self.rate < self.loss_in_bad:
            raise ValueError(
                f"a mean rate of {self.rate:.3g} is not between loss_in_good {self.loss_in_good:.3g} and loss_in_bad"
                f" {self.loss_in_bad:.3g}; change one of them"
            )
        if self.to_bad > 1:
            raise ValueError(
                f"bursts of {self.burst:g} packets are too short for a rate of {self.rate:.3g}; raise burst"
            )
        return self

    @property
    def bad_share(self) -> float:
        """Share of packets that find the bad state."""
        return (self.rate - self.loss_in_good) / (self.loss_in_bad - self.loss_in_good)

    @property
    def to_bad(self) -> float:
        """Probability of a change from good to bad, per packet."""
        return self.bad_share / (1 - self.bad_share) / self.burst

    @override
    def lost(self, draw: random.Random) -> Iterator[int]:
        at, bad = 0, draw.random() < self.bad_share
        while True:
            lasts = _geometric(draw, 1 / self.burst if bad else self.to_bad)
            share = self.loss_in_bad if bad else self.loss_in_good
            number = at - 1
            while share and (number := number + _geometric(draw, share)) < at + lasts:
                yield number
            at, bad = at + lasts, not bad

    @property
    @override
    def text(self) -> str:
        return f"{self.rate * 100:g}% of packets, in bursts of {self.burst:g} on average"


def _geometric(draw: random.Random, share: float) -> int:
    """Return the number of packets up to and with the first that an event of this probability meets, at least 1."""
    return 1 if share >= 1 else 1 + int(math.log(1 - draw.random()) / math.log1p(-share))
