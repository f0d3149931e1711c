"""Deep copy of the mutable state of a running system, closures included.

`copy.deepcopy` takes a function for a constant, so that a timer of the copy would act on the original; pickle refuses
closures. What never changes (configs, paths, frames) is shared.
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


def clone(thing: Any, memo: Memo) -> Any:
    """Return a copy; `memo` maps ids of originals to copies, and keeps temporaries alive."""
    kind = thing.__class__
    copier = _copiers.get(kind)
    if copier is None:
        copier = _copiers[kind] = _copier(kind)
    if copier is _same:
        return thing
    known = memo.get(id(thing))
    return copier(thing, memo) if known is None else known


def fields_of(kind: type) -> tuple[str, ...]:
    """Names of the slots of a class and of those above it."""
    found: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in {"__dict__", "__weakref__"})


def _same(thing: Any, memo: Memo) -> Any:
    del memo
    return thing


def _copier(kind: type) -> _Copier:
    for bases, copier in _KINDS:
        if issubclass(kind, bases):
            return copier
    return _object(kind)


def _list(thing: list[Any], memo: Memo) -> list[Any]:
    made: list[Any] = []
    memo[id(thing)] = made
    made.extend([clone(one, memo) for one in thing])
    return made


def _deque(thing: deque[Any], memo: Memo) -> deque[Any]:
    if thing is EMPTY_QUEUE:
        return thing
    made: deque[Any] = deque()
    memo[id(thing)] = made
    made.extend([clone(one, memo) for one in thing])
    return made


def _tuple(thing: tuple[Any, ...], memo: Memo) -> Any:
    made = [clone(one, memo) for one in thing]
    if all(new is old for new, old in zip(made, thing, strict=True)):
        return thing
    return thing._make(made) if hasattr(thing, "_make") else tuple(made)


def _dict(thing: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    made = memo[id(thing)] = thing.__class__()
    for key, value in thing.items():
        made[clone(key, memo)] = clone(value, memo)
    return made


def _set(thing: Any, memo: Memo) -> Any:
    return thing.__class__(clone(one, memo) for one in thing)


def _bytearray(thing: bytearray, memo: Memo) -> bytearray:
    made = memo[id(thing)] = bytearray(thing)
    return made


def _draws(thing: Draws, memo: Memo) -> Draws:
    made = memo[id(thing)] = thing.copied()
    return made


def _array(thing: array[Any], memo: Memo) -> array[Any]:
    del memo
    return thing[:]


def _view(thing: memoryview, memo: Memo) -> memoryview:
    """A view of bytes is released by itself; one of a buffer that changes is of the whole buffer."""
    try:
        made = memoryview(thing if thing.readonly else clone(thing.obj, memo))
    except ValueError:  # released
        return thing
    memo[id(thing)] = made
    return made


def _function(thing: FunctionType, memo: Memo) -> FunctionType:
    if thing.__closure__ is None:
        return thing
    cells = tuple(_cell(cell, memo) for cell in thing.__closure__)
    made = FunctionType(thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__, cells)
    memo[id(thing)] = made
    return made


def _cell(cell: CellType, memo: Memo) -> CellType:
    made: CellType | None = memo.get(id(cell))
    if made is None:
        made = memo[id(cell)] = CellType()
        made.cell_contents = clone(cell.cell_contents, memo)
    return made


def _method(thing: MethodType, memo: Memo) -> MethodType:
    return MethodType(thing.__func__, clone(thing.__self__, memo))


def _partial(thing: partial[Any], memo: Memo) -> partial[Any]:
    arguments = [clone(one, memo) for one in thing.args]
    return partial(clone(thing.func, memo), *arguments, **{k: clone(v, memo) for k, v in thing.keywords.items()})


def _object(kind: type) -> _Copier:
    names = fields_of(kind)
    new: Callable[[type], Any] = kind.__new__  # type: ignore[assignment]

    def copier(thing: Any, memo: Memo) -> Any:
        made = memo[id(thing)] = new(kind)
        for name in names:
            try:
                value = getattr(thing, name)
            except AttributeError:
                continue
            object.__setattr__(made, name, clone(value, memo))
        if hasattr(thing, "__dict__"):
            its = made.__dict__
            for name, value in thing.__dict__.items():
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
