"""Collectives as generators: each yields `(rank, bytes)` for the next segment that it needs and is resumed with it.

Sources: ring and recursive halving–doubling as in Thakur, Rabenseifner, Gropp, "Optimization of Collective
Communication Operations in MPICH" (2005); binomial trees and dissemination barrier are older. All ranks cut a buffer
into the same segments, and a rank passes each on as soon as it is there, so that the steps of a ring overlap. The
order of a reduction depends on sizes and ranks alone, never on time: the same inputs give the same bits.

`send(rank, view)` may copy the bytes later: they must not change before the receiver could have them, which
every algorithm here ensures by its data dependencies. `combine(at, segment)` reduces a segment into the buffer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Protocol

SEGMENT: Final = 32 * 1024 - 32
"""Bytes of a segment at most: with its header, eight packets of 4096 bytes."""

SMALL_PER_RANK: Final = 16 * 1024
"""Bytes of an all_reduce, per rank, up to which halving–doubling is used; a ring beyond. See docs/torch.md."""

SMALL: Final = 64 * 1024
"""Bytes up to which broadcast and reduce go along a tree, all_gather and reduce_scatter directly; then chain, ring."""

Collective = Generator[tuple[int, int], memoryview, None]
Combine = Callable[[int, memoryview], None]
Span = tuple[int, int]


class Sender(Protocol):
    """Sender of a collective's messages."""

    def send(self, rank: int, view: memoryview) -> None:
        """Send bytes to a rank of the group."""


def chunks(items: int, item: int, count: int) -> list[Span]:
    """Cut `items` items of `item` bytes into `count` spans of bytes, equal up to one item."""
    ends = [items * i // count * item for i in range(count + 1)]
    return list(itertools.pairwise(ends))


def segments(span: Span, item: int = 1) -> Iterator[Span]:
    """Cut a span of bytes into segments of whole items."""
    size = max(SEGMENT // item, 1) * item
    begin, end = span
    for at in range(begin, end, size):
        yield at, min(at + size, end)


def _send(out: Sender, rank: int, buffer: memoryview, span: Span, item: int) -> None:
    for a, b in segments(span, item):
        out.send(rank, buffer[a:b])


def _receive(buffer: memoryview, rank: int, span: Span, item: int) -> Collective:
    for a, b in segments(span, item):
        buffer[a:b] = yield rank, b - a


# --- all_reduce -----------------------------------------------------------------------------------------------------


def all_reduce(out: Sender, rank: int, size: int, buffer: memoryview, item: int, combine: Combine) -> Collective:
    """Reduce `buffer` over all ranks in place: halving–doubling where it is small, else a ring."""
    small = len(buffer) <= SMALL_PER_RANK * size
    return (halving_doubling if small else ring_all_reduce)(out, rank, size, buffer, item, combine)


def ring_all_reduce(out: Sender, rank: int, size: int, buffer: memoryview, item: int, combine: Combine) -> Collective:
    """2(n−1) steps of 1/n of the buffer each: a reduce-scatter, then an all-gather."""
    if size == 1:
        return
    spans = chunks(len(buffer) // item, item, size)
    right, left = (rank + 1) % size, (rank - 1) % size
    _send(out, right, buffer, spans[rank], item)
    for step in range(1, size):
        for a, b in segments(spans[(rank - step) % size], item):
            combine(a, (yield left, b - a))
            out.send(right, buffer[a:b])
    for step in range(size - 1):
        for a, b in segments(spans[(rank - step) % size], item):
            buffer[a:b] = yield left, b - a
            if step < size - 2:
                out.send(right, buffer[a:b])


def halving_doubling(out: Sender, rank: int, size: int, buffer: memoryview, item: int, combine: Combine) -> Collective:
    """2·log2(n) steps; ranks beyond the largest power of two give their data to a partner first and get the result."""
    whole = (0, len(buffer))
    power = 1 << (size.bit_length() - 1)
    extra = size - power
    if rank >= power:
        _send(out, rank - power, buffer, whole, item)
        yield from _receive(buffer, rank - power, whole, item)
        return
    if rank < extra:
        for a, b in segments(whole, item):
            combine(a, (yield rank + power, b - a))
    low, high = 0, len(buffer) // item
    halves: list[tuple[int, Span]] = []
    distance = power // 2
    while distance:
        partner, middle = rank ^ distance, (low + high) // 2
        keep, give = ((low, middle), (middle, high)) if rank < partner else ((middle, high), (low, middle))
        _send(out, partner, buffer, (give[0] * item, give[1] * item), item)
        for a, b in segments((keep[0] * item, keep[1] * item), item):
            combine(a, (yield partner, b - a))
        halves.append((partner, give))
        low, high = keep
        distance //= 2
    for partner, give in reversed(halves):
        _send(out, partner, buffer, (low * item, high * item), item)
        yield from _receive(buffer, partner, (give[0] * item, give[1] * item), item)
        low, high = min(low, give[0]), max(high, give[1])
    if rank < extra:
        _send(out, rank + power, buffer, whole, item)


# --- broadcast, reduce ----------------------------------------------------------------------------------------------


def _tree(rank: int, size: int, root: int) -> tuple[int | None, list[int]]:
    """Parent and children of a rank in the binomial tree of a root; the child with the largest subtree is first."""
    place = (rank - root) % size
    low = place & -place if place else 1 << (size - 1).bit_length()
    parent = None if not place else (place - low + root) % size
    children = []
    while (low := low >> 1) > 0:
        if place + low < size:
            children.append((place + low + root) % size)
    return parent, children


def _chain(rank: int, size: int, root: int) -> tuple[int | None, list[int]]:
    """Parent and children in a chain that begins with the root."""
    place = (rank - root) % size
    parent = None if not place else (rank - 1) % size
    return parent, [(rank + 1) % size] if place < size - 1 else []


def _shape(rank: int, size: int, root: int, length: int) -> tuple[int | None, list[int]]:
    return (_tree if length <= SMALL else _chain)(rank, size, root)


def broadcast(out: Sender, rank: int, size: int, buffer: memoryview, root: int) -> Collective:
    """Give all ranks the root's buffer: along a binomial tree where it is small, else along a chain."""
    parent, children = _shape(rank, size, root, len(buffer))
    for a, b in segments((0, len(buffer))):
        if parent is not None:
            buffer[a:b] = yield parent, b - a
        for child in children:
            out.send(child, buffer[a:b])


def reduce(out: Sender, rank: int, size: int, buffer: memoryview, item: int, combine: Combine, root: int) -> Collective:
    """Reduce into the root's buffer; other ranks' buffers hold partial results afterwards."""
    parent, children = _shape(rank, size, root, len(buffer))
    for a, b in segments((0, len(buffer)), item):
        for child in children:
            combine(a, (yield child, b - a))
        if parent is not None:
            out.send(parent, buffer[a:b])


# --- all_gather, reduce_scatter, all_to_all, gather, scatter, barrier -----------------------------------------------


def all_gather(out: Sender, rank: int, size: int, parts: Sequence[memoryview]) -> Collective:
    """Fill `parts`, one per rank and of equal length; this rank's part is already filled."""
    if max(map(len, parts)) <= SMALL:
        yield from _exchange(out, rank, size, [parts[rank]] * size, parts)
        return
    if size == 1:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    _send(out, right, parts[rank], (0, len(parts[rank])), 1)
    for step in range(1, size):
        part = parts[(rank - step) % size]
        for a, b in segments((0, len(part))):
            part[a:b] = yield left, b - a
            if step < size - 1:
                out.send(right, part[a:b])


def reduce_scatter(
    out: Sender, rank: int, size: int, buffer: memoryview, spans: Sequence[Span], item: int, combine: Combine
) -> Collective:
    """Reduce the span of every rank into that rank's `buffer`; other spans hold partial results afterwards."""
    if max(b - a for a, b in spans) <= SMALL:
        for step in range(1, size):
            to = (rank + step) % size
            _send(out, to, buffer, spans[to], item)
        for other in range(size):  # in the order of ranks, not of arrival
            if other != rank:
                for a, b in segments(spans[rank], item):
                    combine(a, (yield other, b - a))
        return
    if size == 1:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    _send(out, right, buffer, spans[left], item)
    for step in range(1, size):
        for a, b in segments(spans[(rank - 1 - step) % size], item):
            combine(a, (yield left, b - a))
            if step < size - 1:
                out.send(right, buffer[a:b])


def all_to_all(
    out: Sender, rank: int, size: int, sends: Sequence[memoryview], receives: Sequence[memoryview]
) -> Collective:
    """Send each rank its part of `sends` and fill `receives`; one's own part is copied."""
    receives[rank][:] = sends[rank]
    yield from _exchange(out, rank, size, sends, receives)


def _exchange(
    out: Sender, rank: int, size: int, sends: Sequence[memoryview], receives: Sequence[memoryview]
) -> Collective:
    for step in range(1, size):
        to = (rank + step) % size
        _send(out, to, sends[to], (0, len(sends[to])), 1)
    for step in range(1, size):
        source = (rank - step) % size
        yield from _receive(receives[source], source, (0, len(receives[source])), 1)


def gather(out: Sender, rank: int, parts: Sequence[memoryview], own: memoryview, root: int) -> Collective:
    """Fill the root's `parts`, one per rank."""
    if rank != root:
        _send(out, root, own, (0, len(own)), 1)
        return
    parts[rank][:] = own
    for source, part in enumerate(parts):
        if source != root:
            yield from _receive(part, source, (0, len(part)), 1)


def scatter(out: Sender, rank: int, parts: Sequence[memoryview], own: memoryview, root: int) -> Collective:
    """Give each rank its part of the root's `parts`."""
    if rank != root:
        yield from _receive(own, root, (0, len(own)), 1)
        return
    own[:] = parts[rank]
    for to, part in enumerate(parts):
        if to != root:
            _send(out, to, part, (0, len(part)), 1)


def barrier(out: Sender, rank: int, size: int) -> Collective:
    """Return once every rank is in it: dissemination in ⌈log2 n⌉ rounds."""
    distance = 1
    while distance < size:
        out.send((rank + distance) % size, memoryview(b"\0"))
        yield (rank - distance) % size, 1
        distance *= 2


def send(out: Sender, to: int, view: memoryview) -> Collective:
    """Send one message."""
    _send(out, to, view, (0, len(view)), 1)
    if not len(view):
        out.send(to, view)
    return
    yield  # a generator, as the others


def receive(source: int, view: memoryview) -> Collective:
    """Receive one message."""
    yield from _receive(view, source, (0, len(view)), 1)
    if not len(view):
        yield source, 0
