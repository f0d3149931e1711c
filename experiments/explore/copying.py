"""Deep copy of the mutable state of a running system, closures included.

`copy.deepcopy` takes a function for a constant, so that a timer of the copy would act on the original. Here a copy is
pickled, which is quicker, with cells of its own for closures. Objects that never change (configs, paths, frames) are
shared.
"""

from __future__ import annotations

import functools
import io
import pickle
import random
from enum import Enum
from itertools import count
from types import CellType, FunctionType, MethodType
from typing import Any, Final, Generic, TypeVar

from mrclab.experiments.explore.draws import Draws
from mrclab.experiments.explore.packets import Flight
from mrclab.experiments.explore.worlds import Space
from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.packets.packet import MrcCodec, MrcParser
from mrclab.hosts.mrc.peers import OwnSide
from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.settings import QpSettings
from mrclab.topo.config.nodeconfig import EvProfileConfig, NodeConfig, Template, TransportSection
from mrclab.topo.economy import EMPTY_QUEUE

T = TypeVar("T")

SHARED: Final = (
    Enum, type, random.Random, Flight, Space, Ends, EvRoute, MrcCodec, MrcParser, OwnSide, QpSettings, WorkCompletion,
    EvProfileConfig, NodeConfig, Template, TransportSection, type(EMPTY_QUEUE), count,
)  # fmt: skip


class Snapshot(Generic[T]):
    """State of a system, of which copies are made."""

    def __init__(self, original: T) -> None:
        packed = io.BytesIO()
        _shared.clear()
        _Pickler(packed, protocol=5).dump(original)
        self._packed, self._shared = packed.getvalue(), tuple(_shared)

    def copy(self) -> T:
        """Return a copy."""
        _shared[:] = self._shared
        made: T = pickle.loads(self._packed)
        return made


_shared: list[Any] = []
"""Objects that the copy in the making has in common with its original."""


def _place(item: Any) -> int:
    """Keep an object for the copy; return its place."""
    _shared.append(item)
    return len(_shared) - 1


def _at(place: int) -> Any:
    return _shared[place]


@functools.cache
def _is_shared(kind: type) -> bool:
    return issubclass(kind, SHARED) and kind is not Draws


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Return how an object is made that is shared, that pickle refuses, or that it would make otherwise."""
        kind = obj.__class__
        if obj is _at:
            return NotImplemented
        if _is_shared(kind) or (kind is FunctionType and obj.__closure__ is None):
            return _at, (_place(obj),)
        if kind is FunctionType:
            return _with_cells, (_place(obj), obj.__closure__)
        if kind is MethodType:
            return MethodType, (obj.__func__, obj.__self__)
        if kind is CellType:
            return CellType, (), obj.cell_contents, None, None, _fill
        return _made_of(obj) if kind is memoryview else NotImplemented


def _with_cells(place: int, cells: tuple[CellType, ...]) -> FunctionType:
    """Return a function with other cells."""
    kept: FunctionType = _shared[place]
    made = FunctionType(kept.__code__, kept.__globals__, kept.__name__, kept.__defaults__, cells)
    made.__qualname__ = kept.__qualname__  # Python 3.10 gives it the short name, by which fingerprints differ
    return made


def _fill(cell: CellType, contents: Any) -> None:
    cell.cell_contents = contents


def _made_of(view: memoryview) -> tuple[Any, ...]:
    """Return how a view is made: of bytes, one to be released by itself; else one of the whole buffer."""
    try:
        return (_view, (_place(view),)) if view.readonly else (memoryview, (view.obj,))
    except ValueError:  # released
        return _at, (_place(view),)


def _view(place: int) -> memoryview:
    return memoryview(_shared[place])
