"""Variants: one scenario file, several runs to compare. A variant sets places of the file, named by dotted paths.

A part of a path is a field (`transport.qps`), the name of an entry (`traffic.file.size`) or its number from 1. `set`
merges a value into an existing section, field by field, unless its `kind` differs. `replace` replaces the section,
and so does `set` a whole entry of a list.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, field_validator

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.files.yamlfile import Place, without_tags
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.input.sentences import nearest

_LISTS = ("traffic", "faults", "expect", "measure")  # sections of a scenario whose entries have names
_KIND_LEFT_OUT = TransportSpec.model_fields["kind"].default  # only a transport may omit its kind
_MAX_DIGITS = 10  # of an entry's number
_PATTERN = r"^[a-z0-9][a-z0-9-]*$"


class Variant(Strict):
    """One run of a scenario: its differences from the file."""

    name: str = Field(pattern=_PATTERN, max_length=80, description="names the run and its result directory")
    title: str = Field(default="", max_length=200)
    set: dict[str, Any] = Field(
        default={}, description="dotted path → value, e.g. transport.qps: 16; of a section the fields that differ"
    )
    replace: dict[str, Any] = Field(
        default={}, description="dotted path → the whole new value; what it leaves out has its default"
    )

    @field_validator("set", "replace")
    @classmethod
    def _not_itself(cls, places: dict[str, Any]) -> dict[str, Any]:
        for path in places:
            if path.split(".")[0] in {"variants", "name"}:
                raise ValueError(f"{path} cannot be set by a variant; set what differs between runs")
        return places


class UnknownPath(ValueError):  # noqa: N818 - the sentence is the error
    """A dotted path that leads nowhere; the text names the part that is unknown."""

    def __init__(self, path: str, field: str, text: str) -> None:
        super().__init__(text)
        self.path, self.field = path, field  # `set` or `replace`


Places = Mapping[tuple[str, str], Place]  # (`set` or `replace`, dotted path) → place in the data


def apply(data: Mapping[str, Any], variant: Variant) -> tuple[dict[str, Any], Places, tuple[str, ...]]:
    """Return a copy of a scenario's data with a variant's values; UnknownPath if a path leads nowhere.

    A value for a part of a section overrides one for the whole section, in any order: a YAML merge (`<<`) puts its
    merged keys last. The third result is the dotted path, as in `leaves`, of every single value that the variant gives.
    """
    changed: dict[str, Any] = copy.deepcopy({key: value for key, value in data.items() if key != "variants"})
    fields = (("replace", variant.replace), ("set", variant.set))
    given = [(field, path, value) for field, values in fields for path, value in values.items()]
    places: dict[tuple[str, str], Place] = {}
    for field, path, value in sorted(given, key=lambda item: item[1].count(".")):
        places[field, path] = _set(changed, path, field, copy.deepcopy(value))
    gone = {place for place in places.values() if _at(changed, place) is None}
    named: list[str] = []
    for field, path, value in given:
        place = places[field, path]
        named += [path] if place in gone else leaves(value, ".".join(_names(changed, place)))
    for place in sorted(gone, key=_depth_and_index, reverse=True):
        _remove(changed, place)
        places = {each: _without(place, other) for each, other in places.items()}
    return changed, places, tuple(named)


def _depth_and_index(place: Place) -> tuple[int, int]:
    return len(place), place[-1] if isinstance(place[-1], int) else 0


def _at(node: Any, place: Place) -> Any:
    for part in place:
        node = node[part]
    return node


def _remove(node: Any, place: Place) -> None:
    """Remove a field or an entry; what is left out has its default."""
    del _at(node, place[:-1])[place[-1]]


def _without(gone: Place, place: Place) -> Place:
    """Return a place once another is removed: later entries of its list move up."""
    at, number = len(gone) - 1, gone[-1]
    later = place[at] if place[:at] == gone[:-1] and len(place) > at else None
    if isinstance(number, int) and isinstance(later, int) and later > number:
        return (*place[:at], later - 1, *place[at + 1 :])
    return place


def _names(node: Any, place: Place) -> Iterator[str]:
    """Return the parts of a place, with the entries of lists by their names."""
    for part in place:
        node = node[part]
        named = isinstance(part, int) and isinstance(node, dict) and node.get("name")
        yield str(named) if named else _part_text(part)


def leaves(data: Any, path: str = "") -> dict[str, Any]:
    """Return every single value by its dotted path; entries of lists are named, or numbered from 1."""
    if isinstance(data, Mapping):
        inner = [(str(name), part) for name, part in data.items()]
    elif isinstance(data, list) and data:
        inner = [(str((isinstance(e, Mapping) and e.get("name")) or n), e) for n, e in enumerate(data, 1)]
    else:
        return {path: data}
    return {key: value for name, part in inner for key, value in leaves(part, f"{path}.{name}".strip(".")).items()}


def origin(data: Any, places: Places, location: Place, index: int) -> tuple[Place, str]:
    """Return where in the file a mistake in a variant's data was made, and the field where that is not obvious."""
    real = without_tags(data, location)
    for (field, path), place in sorted(places.items(), key=lambda item: -len(item[1])):
        if real[: len(place)] == place:
            return ("variants", index, field, path), ".".join(_part_text(part) for part in real[len(place) :])
    return ("variants", index), "with this variant, " + ".".join(_part_text(part) for part in real)


def dotted(data: Any, location: Place) -> str:
    """Return a pydantic location as a dotted path."""
    return ".".join(_part_text(part) for part in without_tags(data, location))


def _part_text(part: int | str) -> str:
    return str(part + 1) if isinstance(part, int) else part


def _set(data: Any, path: str, field: str, value: Any) -> Place:
    *parents, last = path.split(".")
    node, place = data, []
    for part in parents:
        key = _key(node, part, path, field)
        if isinstance(node, dict) and node.get(part) is None:
            node[part] = [] if node is data and part in _LISTS else {}
        node = node[key]
        place.append(key)
    key = _key(node, last, path, field)
    entry = isinstance(node, list) and isinstance(value, dict) and "kind" in value  # a whole one
    if field == "replace" or entry or (isinstance(node, dict) and key not in node):
        node[key] = value
    else:
        node[key] = _merged(node[key], value)
    return (*place, key)


def _merged(old: Any, value: Any) -> Any:
    """Merge a mapping into the existing one; one of another `kind`, which has other fields, replaces it."""
    if not (isinstance(old, dict) and isinstance(value, dict)):
        return value
    kind = old.get("kind", _KIND_LEFT_OUT)
    if value.get("kind", kind) != kind:
        return value
    merged = {**old, **{key: _merged(old.get(key), part) for key, part in value.items()}}
    return {key: part for key, part in merged.items() if part is not None}


def _key(node: Any, part: str, path: str, field: str) -> int | str:
    """Return a field, or the index of a list entry that is given by name or number."""
    if isinstance(node, dict):
        return part
    if not isinstance(node, list):
        raise UnknownPath(path, field, f"{part!r} is not a field here: what is before it has a plain value")
    named = [str(entry["name"]) if isinstance(entry, dict) and "name" in entry else "" for entry in node]
    if part in named:
        return named.index(part)
    if part.isdecimal() and len(part) < _MAX_DIGITS and 1 <= int(part) <= len(node):
        return int(part) - 1
    known = [name for name in named if name]
    hint = nearest(part, known) if known or not node else f"write a number from 1 to {len(node)}"
    raise UnknownPath(path, field, f"no entry is named {part!r}; {hint}")
