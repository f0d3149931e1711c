"""The lines of a history while it grows, in order of writing: packed in blocks, since they are much and much alike."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator
from typing import Final

_BLOCK: Final = 512  # lines
_GATHERED: Final = 16 * _BLOCK  # lines that are read at once in the order of their times
_LEVEL: Final = 1  # of zlib: the quickest, which leaves a seventh


class Lines:
    """Appended with their times, read again by number or by time. No line has a line break."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._times = array("d")
        self._blocks: list[bytes] = []
        self._newest: list[str] = []
        self._open = -1, [""]  # a block that was read last: its number and lines

    def append(self, t: float, line: str) -> None:
        """One more."""
        self._times.append(t)
        self._newest.append(line)
        if len(self._newest) == _BLOCK:
            self._blocks.append(zlib.compress("\n".join(self._newest).encode(), _LEVEL))
            self._newest = []

    def since(self, number: int) -> list[str]:
        """Those after the first `number`, in order of writing."""
        return [self[at] for at in range(number, len(self._times))]

    def by_time(self) -> Iterator[str]:
        """All in the order of their times; those of one time in order of writing."""
        times = self._times
        order = sorted(range(len(times)), key=times.__getitem__)
        for begin in range(0, len(order), _GATHERED):
            part = order[begin : begin + _GATHERED]
            found = {number: self[number] for number in sorted(part)}  # each block is opened once
            for number in part:
                yield found[number]

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, number: int) -> str:
        block, place = divmod(number, _BLOCK)
        if block == len(self._blocks):
            return self._newest[place]
        if self._open[0] != block:
            self._open = block, zlib.decompress(self._blocks[block]).decode().split("\n")
        return self._open[1][place]
