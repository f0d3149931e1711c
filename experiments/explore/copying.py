"""Deep copy of the mutable state of a running system, closures included.

`copy.deepcopy` takes a function for a constant, so that a timer of the copy would act on the original; pickle refuses
closures. Objects that never change (configs, paths, frames) are shared.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, Final

from mrclab.experiments.explore.draws import Draws
from mrclab.experiments.explore.packets import Flight
from mrclab.experiments.explore.worlds import Space
from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.packets.codec import MrcCodec
from mrclab.hosts.mrc.packets.packet import MrcParser
from mrclab.hosts.mrc.peers import OwnSide
from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.settings import QpSettings
from mrclab.topo.config.nodeconfig import EvProfileConfig, NodeConfig, Template, TransportSection
from mrclab.topo.economy import EMPTY_QUEUE

SHARED: Final = (
    int, float, str, bytes, bool, type(None), Enum, type, random.Random, Flight, Space, Ends, EvRoute, MrcCodec,
    MrcParser, OwnSide, QpSettings, WorkCompletion, EvProfileConfig, NodeConfig, Template, TransportSection,
)  # fmt: skip

Memo = dict[int, Any]
_Copier = Callable[[Any, Memo], Any]
_copiers: dict[type, _Copier] = {}


def clone(original: Any, memo: Memo) -> Any:
    """Return a copy; `memo` maps ids of originals to copies, and keeps temporaries alive."""
    kind = original.__class__
    copier = _copiers.get(kind)
    if copier is None:
        copier = _copiers[kind] = _copier(kind)
    if copier is _same:
        return original
    known = memo.get(id(original))
    return copier(original, memo) if known is None else known


def fields_of(kind: type) -> tuple[str, ...]:
    """Names of the slots of a class and of those above it."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in {"__dict__", "__weakref__"})


def _same(original: Any, memo: Memo) -> Any:
    del memo
    return original


def _copier(kind: type) -> _Copier:
    for bases, copier in _KINDS:
        if issubclass(kind, bases):
            return copier
    return _object(kind)


def _list(original: list[Any], memo: Memo) -> list[Any]:
    made: list[Any] = []
    memo[id(original)] = made
    made.extend([clone(one, memo) for one in original])
    return made


def _deque(original: deque[Any], memo: Memo) -> deque[Any]:
    if original is EMPTY_QUEUE:
        return original
    made: deque[Any] = deque()
    memo[id(original)] = made
    made.extend([clone(one, memo) for one in original])
    return made


def _tuple(original: tuple[Any, ...], memo: Memo) -> Any:
    made = [clone(one, memo) for one in original]
    if all(new is old for new, old in zip(made, original, strict=True)):
        return original
    return original._make(made) if hasattr(original, "_make") else tuple(made)


def _dict(original: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    made = memo[id(original)] = original.__class__()
    for key, value in original.items():
        made[clone(key, memo)] = clone(value, memo)
    return made


def _set(original: Any, memo: Memo) -> Any:
    return original.__class__(clone(one, memo) for one in original)


def _bytearray(original: bytearray, memo: Memo) -> bytearray:
    made = memo[id(original)] = bytearray(original)
    return made


def _draws(original: Draws, memo: Memo) -> Draws:
    made = memo[id(original)] = original.copied()
    return made


def _array(original: array[Any], memo: Memo) -> array[Any]:
    del memo
    return original[:]


def _view(original: memoryview, memo: Memo) -> memoryview:
    """A view of bytes is released by itself; one of a buffer that changes is of the whole buffer."""
    try:
        made = memoryview(original if original.readonly else clone(original.obj, memo))
    except ValueError:  # released
        return original
    memo[id(original)] = made
    return made


def _function(original: FunctionType, memo: Memo) -> FunctionType:
    if original.__closure__ is None:
        return original
    cells = tuple(_cell(cell, memo) for cell in original.__closure__)
    made = FunctionType(original.__code__, original.__globals__, original.__name__, original.__defaults__, cells)
    memo[id(original)] = made
    return made


def _cell(cell: CellType, memo: Memo) -> CellType:
    made: CellType | None = memo.get(id(cell))
    if made is None:
        made = memo[id(cell)] = CellType()
        made.cell_contents = clone(cell.cell_contents, memo)
    return made


def _method(original: MethodType, memo: Memo) -> MethodType:
    return MethodType(original.__func__, clone(original.__self__, memo))


def _partial(original: partial[Any], memo: Memo) -> partial[Any]:
    arguments = [clone(one, memo) for one in original.args]
    return partial(clone(original.func, memo), *arguments, **{k: clone(v, memo) for k, v in original.keywords.items()})


def _object(kind: type) -> _Copier:
    names = fields_of(kind)
    new: Callable[[type], Any] = kind.__new__  # type: ignore[assignment]

    def copier(original: Any, memo: Memo) -> Any:
        made = memo[id(original)] = new(kind)
        for name in names:
            try:
                value = getattr(original, name)
            except AttributeError:
                continue
            object.__setattr__(made, name, clone(value, memo))
        if hasattr(original, "__dict__"):
            its = made.__dict__
            for name, value in original.__dict__.items():
                its[name] = clone(value, memo)
        return made

    return copier


_KINDS: Final[tuple[tuple[Any, _Copier], ...]] = (
    (Draws, _draws),
    (SHARED, _same),
    (tuple, _tuple),
    (list, _list),
    (deque, _deque),
    (dict, _dict),
    (Counter, _dict),
    ((set, frozenset), _set),
    (array, _array),
    (bytearray, _bytearray),
    (memoryview, _view),
    (FunctionType, _function),
    (MethodType, _method),
    (partial, _partial),
)
