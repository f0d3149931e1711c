"""Lines of a history as events, and back. Loads every module of this package, so that all kinds are registered."""

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from importlib import import_module
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict

import mrclab.events
from mrclab.events.event import EVENTS, Event, renamed

for _module in pkgutil.iter_modules(mrclab.events.__path__):
    if _module.name != "codec":
        import_module(f"mrclab.events.{_module.name}")

_HEAD = ("t", "node", "kind")

E = TypeVar("E", bound=Event)
E_co = TypeVar("E_co", bound=Event, covariant=True)


class EventError(ValueError):
    """A line that is not a record of its kind; the text names the kind and the field."""


@dataclass(frozen=True, slots=True)
class Entry(Generic[E_co]):
    """An event with the node that wrote it, and its time in seconds."""

    t: float
    node: str
    event: E_co


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    cls = EVENTS[kind]
    hints = get_type_hints(cls, include_extras=True)
    fields = {
        name: hints[name] if default is MISSING else NotRequired[hints[name]] for name, default in cls.defaults.items()
    }
    return TypeAdapter(TypedDict(kind, fields))  # type: ignore[operator] # made of its fields


def encode(entry: Entry[Event]) -> str:
    """Return the line of the history, without a line break."""
    return json.dumps({"t": entry.t, "node": entry.node, **entry.event.to_record()})


def decode(line: str) -> Entry[Event]:
    """Return the event of a line; EventError where its kind is not known or a field is missing or of another type.

    Kinds and fields of earlier versions get their present names; fields that the class does not have are passed over.
    """
    try:
        record = json.loads(line)
        t, node, kind = (record.pop(name) for name in _HEAD)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EventError("this line is not a record: a record has t, node and kind") from None
    kind, record = renamed(kind, record)
    if kind not in EVENTS:
        raise EventError(f"no class of mrclab.events has the kind {kind!r}")
    return Entry(t, node, typed(EVENTS[kind], record))


def typed(cls: type[E], record: Mapping[str, Any]) -> E:
    """Return an event of this class from the fields of a line; EventError as `decode`."""
    if cls.more:
        rest = {name: value for name, value in record.items() if name not in cls.defaults}
        record = {**record, cls.more: rest}
    try:
        # As JSON, where strict types still take a list for a tuple.
        return cls(**_adapter(cls.kind).validate_json(json.dumps(record), strict=True))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise EventError(f"{cls.kind}: {place}: {first['msg']}") from None
