"""What stands for a queue in which nothing waits: an empty deque takes 0.7 kB, and a host would have a dozen of them.

Whoever appends puts a deque of its own in its place first.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

NOTHING: Final[deque[Any]] = deque(maxlen=0)
"""Empty, and stays so."""
