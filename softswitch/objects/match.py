"""Lookup structures of match-action tables, from match keys to entry values.

A packet's key is an integer (one field) or a tuple of integers. Exact tables are one dict. The others keep one dict
per set of masks (an LPM table one per prefix length), searched in order of the best entry each can give, and cache
the entries of recent keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mrclab.softswitch.objects.runtime_api import InvalidRequestError, MatchKey
from mrclab.softswitch.p4.program import TableKey

Value = tuple[Any, ...]
Key = Any  # an int or a tuple of ints

MAX_CACHED = 4096
"""Keys in a table's cache before it is cleared."""

_NOT_CACHED: Any = object()


def check(table: str, keys: tuple[TableKey, ...], match: MatchKey) -> None:
    """Refuse a match that does not fit the table's key."""
    if len(match) != len(keys):
        raise InvalidRequestError(f"table {table}: {len(match)} match fields given, the key has {len(keys)}")
    for info, field in zip(keys, match, strict=True):
        problem = _problem(info, field)
        if problem:
            raise InvalidRequestError(f"table {table}: match field {info.name}: {problem}")


def _problem(info: TableKey, field: Any) -> str:  # noqa: PLR0911 - one return per fault
    top = (1 << info.width) - 1
    if info.kind in {"exact", "optional"}:
        if field is None and info.kind == "optional":
            return ""
        return "" if isinstance(field, int) and 0 <= field <= top else f"{field} is not a value of {info.width} bits"
    if not isinstance(field, tuple):
        return f"{field} is not valid for match kind {info.kind}"
    first, second = field
    if info.kind == "lpm":
        if not 0 <= second <= info.width:
            return f"prefix length {second} is beyond {info.width} bits"
        mask = top ^ (top >> second)
        return "" if 0 <= first <= top and not first & ~mask else f"{first:#x} has bits behind its prefix"
    if info.kind == "range":
        return "" if 0 <= first <= second <= top else f"{first}..{second} is not a range of {info.width} bits"
    return "" if 0 <= first <= top and 0 <= second <= top and not first & ~second else "value has bits beyond its mask"


class ExactMatcher:
    """One dict; `find` is its own `get`."""

    def __init__(self, keys: tuple[TableKey, ...]) -> None:
        self._single = len(keys) == 1
        self._values: dict[Key, Value] = {}
        self.find: Callable[[Key], Value | None] = self._values.get

    def put(self, match: MatchKey, _priority: int, value: Value) -> None:
        """Add or replace an entry."""
        self._values[match[0] if self._single else match] = value

    def remove(self, match: MatchKey, _priority: int) -> None:
        """Remove an entry."""
        del self._values[match[0] if self._single else match]

    def clear(self) -> None:
        """Remove all entries."""
        self._values.clear()


Shape = tuple[tuple[int, ...], tuple[int, ...]]
"""Masks of all fields, and the positions of fields that match a range (with mask 0)."""

Bucket = list[tuple[int, int, tuple[tuple[int, int], ...], Value]]
"""Entries with the same masked values: (rank, order, ranges, value), best rank first."""


class MaskedMatcher:
    """LPM, ternary, range and optional matches, and mixtures with exact ones. The larger rank wins, then the older."""

    def __init__(self, keys: tuple[TableKey, ...]) -> None:
        self._keys = keys
        self._single = len(keys) == 1
        self._by_prefix = not any(key.kind in {"ternary", "range", "optional"} for key in keys)
        self._shapes: dict[Shape, dict[tuple[int, ...], Bucket]] = {}
        self._order: list[tuple[int, Shape, dict[tuple[int, ...], Bucket]]] = []
        self._count = 0
        self._cache: dict[Key, Value | None] = {}
        self.find: Callable[[Key], Value | None] = self._make_find()

    def _make_find(self) -> Callable[[Key], Value | None]:
        cache, search = self._cache, self._search
        known = cache.get

        def find(key: Key) -> Value | None:
            value: Value | None = known(key, _NOT_CACHED)
            if value is _NOT_CACHED:
                value = search(key)
                if len(cache) >= MAX_CACHED:
                    cache.clear()
                cache[key] = value
            return value

        return find

    def _search(self, key: Key) -> Value | None:
        fields = (key,) if self._single else key
        best: Value | None = None
        best_rank = (-1, 0)
        for top, (masks, ranged), buckets in self._order:
            if top < best_rank[0]:
                break
            bucket = buckets.get(tuple(f & m for f, m in zip(fields, masks, strict=True)))
            for rank, order, ranges, value in bucket or ():
                if (rank, -order) <= best_rank:
                    break
                if all(low <= fields[i] <= high for i, (low, high) in zip(ranged, ranges, strict=True)):
                    best, best_rank = value, (rank, -order)
                    break
        return best

    def _place(self, match: MatchKey, priority: int) -> tuple[Shape, tuple[int, ...], tuple[tuple[int, int], ...], int]:
        masks, values, ranged, ranges, prefix = [], [], [], [], 0
        for number, (info, field) in enumerate(zip(self._keys, match, strict=True)):
            full = (1 << info.width) - 1
            if info.kind == "exact" or (info.kind == "optional" and field is not None):
                masks.append(full)
                values.append(field)
            elif field is None:
                masks.append(0)
                values.append(0)
            else:
                first, second = field  # type: ignore[misc]
                if info.kind == "range":
                    ranged.append(number)
                    ranges.append((first, second))
                    first = second = 0
                elif info.kind == "lpm":
                    prefix, second = second, full ^ (full >> second)
                masks.append(second)
                values.append(first)
        rank = prefix if self._by_prefix else priority
        return (tuple(masks), tuple(ranged)), tuple(values), tuple(ranges), rank  # type: ignore[arg-type]

    def put(self, match: MatchKey, priority: int, value: Value) -> None:
        """Add or replace an entry."""
        shape, values, ranges, rank = self._place(match, priority)
        bucket = self._shapes.setdefault(shape, {}).setdefault(values, [])
        for index, (old_rank, order, old_ranges, _) in enumerate(bucket):
            if (old_rank, old_ranges) == (rank, ranges):
                bucket[index] = (rank, order, ranges, value)
                break
        else:
            self._count += 1
            bucket.append((rank, self._count, ranges, value))
            bucket.sort(key=lambda item: (-item[0], item[1]))
            self._sort()
        self._cache.clear()

    def remove(self, match: MatchKey, priority: int) -> None:
        """Remove an entry."""
        shape, values, ranges, rank = self._place(match, priority)
        buckets = self._shapes[shape]
        bucket = buckets[values]
        bucket[:] = [item for item in bucket if (item[0], item[2]) != (rank, ranges)]
        if not bucket:
            del buckets[values]
        if not buckets:
            del self._shapes[shape]
        self._sort()
        self._cache.clear()

    def _sort(self) -> None:
        """Order the shapes by the best rank each holds; where all of a shape rank alike (LPM), that is cheap."""
        order = []
        for shape, buckets in self._shapes.items():
            if self._by_prefix:
                top = next(iter(buckets.values()))[0][0]
            else:
                top = max(bucket[0][0] for bucket in buckets.values())
            order.append((top, shape, buckets))
        self._order = sorted(order, key=lambda item: -item[0])

    def clear(self) -> None:
        """Remove all entries."""
        self._shapes.clear()
        self._order.clear()
        self._cache.clear()


Matcher = ExactMatcher | MaskedMatcher


def matcher(keys: tuple[TableKey, ...]) -> Matcher:
    """Return the structure for a table with this key."""
    if all(key.kind == "exact" for key in keys):
        return ExactMatcher(keys)
    return MaskedMatcher(keys)
