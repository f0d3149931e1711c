"""Impairments of the frames of one direction beside loss: delay, jitter, reordering, duplicates. Pure.

The same seed treats packet number n alike, in either world: the relay process on a cable of the wire,
or a cable in virtual time.
"""

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Impairment:
    """Impairment of the frames of one direction. Times in seconds, probabilities 0…1.

    A frame waits `delay` plus a uniform draw from ±`jitter`. With `ordered` no frame overtakes another, as on a real
    wire; without, jitter reorders. `reorder`: share of frames that skip the wait and so overtake. `lose` are numbers
    of frames to lose, counted from 1 from the start; `loss` and `duplicate` are shares, drawn from the seed.
    """

    delay: float = 0.0
    jitter: float = 0.0
    ordered: bool = True
    reorder: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    lose: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("delay", "jitter"):
            if not 0 <= getattr(self, name) <= 60:
                raise ValueError(f"{name} is 0…60 seconds, not {getattr(self, name)}")
        for name in ("reorder", "loss", "duplicate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share of 0…1, not {getattr(self, name)}")
        if self.jitter > self.delay:
            raise ValueError(
                f"jitter {self.jitter} exceeds delay {self.delay}; a frame cannot arrive before it is sent"
            )
        if self.reorder and not self.delay:
            raise ValueError("reorder needs a delay that some frames skip")
        if any(number < 1 for number in self.lose):
            raise ValueError("frames to lose are counted from 1")


@dataclass
class Counts:
    """Frames of one direction."""

    received: int = 0
    lost: int = 0
    duplicated: int = 0
    overtook: int = 0
    sent: int = 0


class Impairer:
    """Decides when each frame of one direction leaves. Pure: time comes in, draws come from the seed."""

    def __init__(self, impairment: Impairment, seed: str) -> None:
        self._impairment, self._random = impairment, random.Random(seed)
        self._lose = frozenset(impairment.lose)
        self._last = -math.inf
        self.counts = Counts()

    def departures(self, now: float) -> list[float]:
        """Return when the frame that arrives now leaves: once, twice or (lost) never. Always four draws per frame."""
        chosen, counts = self._impairment, self.counts
        lost, doubled, skips = (self._random.random() for _ in range(3))
        wait = chosen.delay + chosen.jitter * (2 * self._random.random() - 1)
        counts.received += 1
        if counts.received in self._lose or lost < chosen.loss:
            counts.lost += 1
            return []
        if skips < chosen.reorder:
            counts.overtook += 1
            leaves = now
        else:
            leaves = max(now + wait, self._last) if chosen.ordered else now + wait
            self._last = leaves
        if doubled < chosen.duplicate:
            counts.duplicated += 1
            return [leaves, leaves]
        return [leaves]
