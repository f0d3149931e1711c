"""A random generator without randomness: its next draw follows from the state that the search compares."""

from __future__ import annotations

import random
from typing import Any, Final

_TURNS: Final = 16  # choices until the rotation begins again


class Draws(random.Random):
    """Generator of constant numbers; choices rotate, so that a caller that draws again gets another one."""

    def __init__(self) -> None:
        super().__init__(0)
        self.turn = 0

    def random(self) -> float:
        """Return 0.5."""
        return 0.5

    def getrandbits(self, k: int, /) -> int:
        """Return 0."""
        return 0

    def choice(self, seq: Any) -> Any:
        """Return one of the first four in rotation, each four times: two QPs made one after the other draw the same."""
        if len(seq) == 1:
            return seq[0]
        turn = self.turn
        self.turn = (turn + 1) % _TURNS
        return seq[turn // 4 % len(seq)]

    def shuffle(self, x: Any, *_: Any) -> None:
        """Leave the sequence in its order."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a copy is made, which draws the same from here on."""
        return _drawn, (self.turn,)


def _drawn(turn: int) -> Draws:
    made = Draws()
    made.turn = turn
    return made
