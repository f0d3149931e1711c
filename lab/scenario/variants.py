"""Variants: one scenario file, several runs to compare. A variant sets places of the file, named by dotted paths.

A part of a path is a field (`transport.qps`), the name of an entry (`traffic.file.size`) or its number from 1.
"""

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.yamlfile import nearest

_PATTERN = r"^[a-z0-9][a-z0-9-]*$"


class Variant(Strict):
    """One run of a scenario: what differs from what the file says."""

    name: str = Field(pattern=_PATTERN, max_length=80, description="names the run and its result directory")
    title: str = ""
    set: dict[str, Any] = Field(default={}, description="dotted path → value, e.g. transport.qps: 16")

    @field_validator("set")
    @classmethod
    def _not_itself(cls, places: dict[str, Any]) -> dict[str, Any]:
        for path in places:
            if path.split(".")[0] in {"variants", "name"}:
                raise ValueError(f"{path} cannot be set by a variant; set what differs between runs")
        return places


class UnknownPlace(ValueError):  # noqa: N818 - the sentence is the error
    """A dotted path that leads nowhere; the text says where it ends."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(text)
        self.path = path


Place = tuple[int | str, ...]


def apply(data: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Place]]:
    """A copy of a scenario's data with values set, and the place of each; UnknownPlace where a path leads nowhere."""
    changed: dict[str, Any] = copy.deepcopy({key: value for key, value in data.items() if key != "variants"})
    return changed, {path: _set(changed, path, copy.deepcopy(value)) for path, value in values.items()}


def origin(data: Any, places: Mapping[str, Place], location: Place, index: int) -> tuple[Place, str]:
    """Where the file says what is wrong at a place of a variant's data, and the field where that is not obvious."""
    real = _without_tags(data, location)
    for path, place in sorted(places.items(), key=lambda item: -len(item[1])):
        if real[: len(place)] == place:
            return ("variants", index, "set", path), ".".join(_spoken(part) for part in real[len(place) :])
    return ("variants", index), "with this variant, " + ".".join(_spoken(part) for part in real)


def _spoken(part: int | str) -> str:
    return str(part + 1) if isinstance(part, int) else part


def _without_tags(node: Any, location: Place) -> Place:
    """A pydantic location without the tags of unions."""
    real: list[int | str] = []
    for position, part in enumerate(location):
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            if position < len(location) - 1:
                continue
        real.append(part)
    return tuple(real)


def _set(data: Any, path: str, value: Any) -> Place:
    *parents, last = path.split(".")
    node, place = data, []
    for part in parents:
        key = _key(node, part, path)
        if isinstance(node, dict) and node.get(part) is None:
            node[part] = {}
        node = node[key]
        place.append(key)
    key = _key(node, last, path)
    node[key] = value
    return (*place, key)


def _key(node: Any, part: str, path: str) -> int | str:
    """A field, or the index of an entry of a list that is given by name or number."""
    if isinstance(node, dict):
        return part
    if not isinstance(node, list):
        raise UnknownPlace(path, f"{part!r} is no field here, for what it would be a field of is a plain value")
    named = [str(entry["name"]) if isinstance(entry, dict) and "name" in entry else "" for entry in node]
    if part in named:
        return named.index(part)
    if part.isdecimal() and 1 <= int(part) <= len(node):
        return int(part) - 1
    known = [name for name in named if name]
    hint = nearest(part, known) if known else f"write a number from 1 to {len(node)}"
    raise UnknownPlace(path, f"no entry is named {part!r}; {hint}")
