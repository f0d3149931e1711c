"""Empty-queue sentinel: an empty deque takes 0.7 kB, and a host would have a dozen of them.

Whoever appends puts a deque of its own in its place first.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NoReturn


class _Nothing(deque[Any]):
    """Empty, and stays so: a deque that is merely bounded by 0 would lose what is put in without a word."""

    def append(self, _: Any) -> NoReturn:
        raise TypeError("nothing waits here, and many share it: put a deque of your own in its place first")

    appendleft = extend = append


EMPTY_QUEUE: Final[deque[Any]] = _Nothing(maxlen=0)
