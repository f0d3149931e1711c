"""Memory economy for fabrics of 131,072 NICs: derived values are not kept, equal ones are shared.

`LazySequence` makes items when they are needed, `EMPTY_QUEUE` is the shared empty deque, `SeededSecrets` a
generator without its 2.5 kB, `IdentityCache` shares values between hosts, `CompressedLog` packs a growing history.
"""

from __future__ import annotations

import random
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar, overload

T = TypeVar("T")

# --- sequences --------------------------------------------------------------------------------------------------------


class LazySequence(Sequence[T]):
    """`count` items, item n from `make(n)`; n counts from 0. Equal to any sequence of equal items.

    The first `kept` elements used are kept, so that small sequences return the same objects every time.
    """

    __slots__ = ("_count", "_known", "_make", "_room")

    def __init__(self, count: int, make: Callable[[int], T], kept: int = 0) -> None:
        self._count = count
        self._make = make
        self._room = kept
        self._known: dict[int, T] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._item(number) for number in range(self._count)[index])
        number = index + self._count if index < 0 else index
        if not 0 <= number < self._count:
            raise IndexError(f"{index} is outside 0…{self._count - 1}")
        return self._item(number)

    def _item(self, number: int) -> T:
        found = self._known.get(number)
        if found is None:
            found = self._make(number)
            if self._room:
                self._room -= 1
                self._known[number] = found
        return found

    @property
    def known(self) -> Iterator[T]:
        """Elements kept, in the order of their first use."""
        return iter(self._known.values())

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(self._count))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != self._count:
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self._count, *self[:1], *self[-1:])) if self._count else 0

    def __repr__(self) -> str:
        return f"<{self._count} items>"


# --- queues -----------------------------------------------------------------------------------------------------------


class _EmptyQueue(deque[Any]):
    """Empty, and stays so: a deque that is merely bounded by 0 would lose its items without an error."""

    def append(self, _: Any) -> NoReturn:
        raise TypeError("this empty queue is shared: put a deque of your own in its place first")

    appendleft = extend = append


EMPTY_QUEUE: Final[deque[Any]] = _EmptyQueue(maxlen=0)
"""Empty-queue sentinel: an empty deque has 0.7 kB, and a host would have a dozen. Replace it before appending."""


# --- random numbers ---------------------------------------------------------------------------------------------------

_FEW: Final = 8  # draws; from then on the generator is kept


class Secrets(Protocol):
    """Generator of keys and first PSNs."""

    def getrandbits(self, k: int, /) -> int:
        """Return a number of k random bits."""


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


# --- shared values ----------------------------------------------------------------------------------------------------


class IdentityCache(Generic[T]):
    """At most `size` values by the identity of the objects that they follow from, which are kept alive with them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[tuple[Hashable, ...], tuple[tuple[object, ...], T]] = {}

    def get(self, objects: tuple[object, ...], rest: tuple[Hashable, ...], make: Callable[[], T]) -> T:
        """Return the value of these objects and hashable `rest`, made where it is not known."""
        key = (*map(id, objects), *rest)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._size:
                self._known.clear()
            known = self._known[key] = objects, make()
        return known[1]


# --- history ----------------------------------------------------------------------------------------------------------

_BLOCK: Final = 512  # lines
_GATHERED: Final = 16 * _BLOCK  # lines that are read at once in the order of their times
_LEVEL: Final = 1  # of zlib: the quickest, which leaves a seventh


class CompressedLog:
    """Lines of a history, in blocks: appended with their times, read by number or by time. No line has a line break."""

    def __init__(self) -> None:
        self._times = array("d")
        self._blocks: list[bytes] = []
        self._newest: list[str] = []
        self._open = -1, [""]  # a block that was read last: its number and lines

    def append(self, t: float, line: str) -> None:
        """Append a line."""
        self._times.append(t)
        self._newest.append(line)
        if len(self._newest) == _BLOCK:
            self._blocks.append(zlib.compress("\n".join(self._newest).encode(), _LEVEL))
            self._newest = []

    def since(self, number: int) -> list[str]:
        """Return the lines after the first `number`, in order of writing."""
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
