"""A random generator whose draws depend on their number only, so that the state determines the next one."""

from __future__ import annotations

import random
from typing import Any, Final

_TURNS: Final = 16  # after as many choices it begins again


class Draws(random.Random):
    """The first of all, except that choices rotate, so that a second search finds another one."""

    def __init__(self) -> None:
        super().__init__(0)
        self.turn = 0

    def random(self) -> float:
        """In the middle."""
        return 0.5

    def getrandbits(self, k: int, /) -> int:
        """The first of all."""
        return 0

    def choice(self, seq: Any) -> Any:
        """Each of up to four in its turn, and four times: two QPs that are made one after the other draw the same."""
        if len(seq) == 1:
            return seq[0]
        turn = self.turn
        self.turn = (turn + 1) % _TURNS
        return seq[turn // 4 % len(seq)]

    def shuffle(self, x: Any, *_: Any) -> None:
        """Leave the sequence in its order."""

    def copied(self) -> Draws:
        """Another one that draws the same from here on."""
        made = Draws()
        made.turn = self.turn
        return made
