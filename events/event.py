"""Base of all records of the history, the decorator that registers them, and the units of their fields.

The decorator names a class's kind; its docstring says when it is written. A field with a default is left out of the
line where it has that value, any other is always there. Fields of a class are written in their order.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Final, TypeVar

from typing_extensions import dataclass_transform


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of a field, or the kind of thing that it names; part of the field's type."""

    text: str


Seconds = Annotated[float, Unit("s")]
At = Annotated[float, Unit("s on the history's clock")]
Bytes = Annotated[int, Unit("bytes of payload")]
Share = Annotated[float, Unit("share of 1")]
Qp = Annotated[int, Unit("local QP number")]
Psn = Annotated[int, Unit("PSN")]
Ev = Annotated[int, Unit("EV")]
Plane = Annotated[int, Unit("plane")]
Uplink = Annotated[int, Unit("uplink of the T0")]
PortNumber = Annotated[int, Unit("port number")]
Packets = Annotated[int, Unit("packets")]
Sha256 = Annotated[str, Unit("SHA-256, hexadecimal")]
Row = dict[str, Any]
"""Counters by name, as the part that counts defines them."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Event:
    """A record without its time and node.

    A class has what a frozen dataclass of its annotated fields would have; making one takes a third of a millisecond
    for each of some ninety kinds, in every process.
    """

    __slots__ = ()

    kind: ClassVar[str]
    more: ClassVar[str] = ""
    """Name of the field for all other fields of a line; "" if a class knows all of them."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields in their order, with their defaults; MISSING where there is none."""

    def __init_subclass__(cls) -> None:
        names = (name for name in get_annotations(cls) if name not in get_annotations(Event))
        cls.defaults = {**cls.defaults, **{name: vars(cls).get(name, MISSING) for name in names}}

    def __init__(self, **given: Any) -> None:
        vars(self).update({**self.defaults, **given})
        if len(vars(self)) > len(self.defaults) or MISSING in vars(self).values():
            raise TypeError(f"{type(self).__qualname__} has the fields {', '.join(self.defaults)}")

    def __setattr__(self, name: str, _value: object) -> None:
        raise AttributeError(f"{type(self).__qualname__}.{name} cannot be set: an event does not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def to_record(self) -> dict[str, Any]:
        """Return kind and fields, as they follow time and node in a line of the history."""
        return {"kind": self.kind, **self.fields()}

    def fields(self) -> dict[str, Any]:
        """Return the fields as a line of the history has them, by name."""
        values = vars(self)
        found = {name: values[name] for name, default in self.defaults.items() if values[name] != default}
        if self.more:
            found.update(found.pop(self.more))
        return found


EVENTS: Final[dict[str, type[Event]]] = {}
"""Classes by kind; all of them once `mrclab.events.codec` is loaded."""

_OLD_KINDS: Final = {"faults.healed": "faults.cleared", "pulse": "heartbeat", "agent.told": "agent.updated"}
_OLD_FIELDS: Final = {"verdict": {"rivals": "alternatives"}}

E = TypeVar("E", bound=Event)


def renamed(kind: str, record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return kind and fields by their present names: histories of earlier versions have others."""
    if names := _OLD_FIELDS.get(kind):
        record = {names.get(name, name): value for name, value in record.items()}
    return _OLD_KINDS.get(kind, kind), record


def event(kind: str) -> Callable[[type[E]], type[E]]:
    """Register a class; ValueError where the kind is taken."""

    def register(cls: type[E]) -> type[E]:
        cls.kind = kind
        other = EVENTS.setdefault(kind, cls)
        if other is not cls:
            raise ValueError(f"record kind {kind!r} of {cls.__module__} is {other.__module__}'s; choose another")
        return cls

    return register
