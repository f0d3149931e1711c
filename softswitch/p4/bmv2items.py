"""Names, ids, sizes and places of the objects of BMv2 JSON."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4.jsonvalue import JsonValue


def where(item: JsonValue) -> str:
    """Return ` (file.p4:12)` for an object with source information, else nothing."""
    info = item.get("source_info")
    if info is None or info.get("line") is None:
        return ""
    name = info.get("filename")
    return f" ({'' if name is None else name.prose}:{info['line'].whole()})"


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Add the enclosing item to a refusal."""
    try:
        yield
    except PipelineError as error:
        raise PipelineError(f"{error}, in {what}") from error


def unique(item: JsonValue, known: Container[str], what: str) -> str:
    """Return an object's name, which no other of its kind has."""
    name = item["name"].text
    if name in known:
        raise PipelineError(f"{what} {name}{where(item)}: the name is taken")
    return name


def new_id(item: JsonValue, known: Container[int], what: str) -> int:
    """Return an object's id, which no other of its kind has."""
    number = item["id"].whole()
    if number in known:
        raise PipelineError(f"{what} {item['name'].text}{where(item)}: the id {number} is taken")
    return number


def flag(item: JsonValue, name: str, default: bool = False) -> bool:
    """Return a member that is a flag, or the default."""
    found = item.get(name)
    return default if found is None else found.flag


def number_of(item: JsonValue, name: str, most: int = (1 << 31) - 1) -> int:
    """Return a member that is a number, 0 where there is none."""
    found = item.get(name)
    return 0 if found is None else found.whole(most)


def one_of(names: Container[str], value: JsonValue) -> str | None:
    """Return the name of the next node, None for the end."""
    name = value.text_or_none
    if name is not None and name not in names:
        raise value.refused("the name of a parser state, table, condition or null")
    return name
