"""Keys and first PSNs that follow from a seed: drawn as random.Random draws them, without its 2.5 kB where few are."""

from __future__ import annotations

import random
from typing import Final, Protocol

_FEW: Final = 8  # draws; from then on the generator is kept


class Secrets(Protocol):
    """Generator of keys and first PSNs."""

    def getrandbits(self, k: int, /) -> int:
        """So many random bits."""


class SeededSecrets:
    """The draws of `random.Random(seed)`, one after the other."""

    __slots__ = ("_drawn", "_kept", "_seed")

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._drawn: tuple[int, ...] = ()  # bits of the draws so far
        self._kept: random.Random | None = None

    def getrandbits(self, k: int, /) -> int:
        """The next draw."""
        kept = self._kept
        if kept is not None:
            return kept.getrandbits(k)
        made = random.Random(self._seed)
        for bits in self._drawn:
            made.getrandbits(bits)
        self._drawn = (*self._drawn, k)
        if len(self._drawn) >= _FEW:
            self._kept = made
        return made.getrandbits(k)
