"""Sequences whose items are made when asked for: what follows from a number by arithmetic need not be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Made(Sequence[T]):
    """`count` items, item n from `make(n)`; n counts from 0. Equal to any sequence of equal items.

    The first `kept` that are asked for are kept, so that small sequences give the same objects every time.
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
        """Those that are kept, in the order in which they were first asked for."""
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
