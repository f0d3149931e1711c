"""BMv2 JSON as typed values: each access checks type and bounds; errors name the place."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Container, Iterator
from typing import TypeVar

from mrclab.softswitch.objects.runtime_api import PipelineError

MAX_BYTES = 1 << 24
"""Longest text; p4c writes some 100 kB for a program of a thousand lines."""
MAX_DIGITS = 2048
"""Most digits of a number, decimal or hexadecimal."""
MAX_NAME = 4096
_SHOWN = 60

T = TypeVar("T")


class JsonValue:
    """A value and its place; subscripts are members of an object, attributes read the value as a type."""

    __slots__ = ("_key", "_parent", "value")

    def __init__(self, value: object, parent: JsonValue | None = None, key: str | int = "") -> None:
        self.value = value
        self._parent, self._key = parent, key

    @property
    def path(self) -> str:
        """The place, such as `actions[3].name`."""
        if self._parent is None:
            return ""
        above = self._parent.path
        if isinstance(self._key, int):
            return f"{above}[{self._key}]"
        return f"{above}.{self._key}" if above else self._key

    def refused(self, expected: str) -> PipelineError:
        """Return the refusal of this value."""
        shown = ascii(self.value)
        shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
        return PipelineError(f"BMv2 JSON is malformed: {self.path or 'the text'} is {shown}, {expected} is expected")

    # -- objects and arrays -------------------------------------------------------------------------------------------

    def _object(self) -> dict[str, object]:
        if not isinstance(self.value, dict):
            raise self.refused("an object")
        return self.value

    def __getitem__(self, name: str) -> JsonValue:
        members = self._object()
        if name not in members:
            raise PipelineError(f"BMv2 JSON is malformed: {self.path or 'the text'} has no {name}")
        return JsonValue(members[name], self, name)

    def get(self, name: str) -> JsonValue | None:
        """Return a member, None where it is missing or null."""
        found = self._object().get(name)
        return None if found is None else JsonValue(found, self, name)

    def all(self, name: str) -> Iterator[JsonValue]:
        """Return the elements of a member that is an array, none where it is missing."""
        found = self.get(name)
        return iter(()) if found is None else iter(found.elements())

    def elements(self, least: int = 0, most: int = 1 << 20) -> list[JsonValue]:
        """Return the elements of an array of this length."""
        if not isinstance(self.value, list) or not least <= len(self.value) <= most:
            raise self.refused("an array" if not least else f"an array of {least} elements or more")
        return [JsonValue(value, self, number) for number, value in enumerate(self.value)]

    def members(self) -> list[tuple[str, JsonValue]]:
        """Return the members of an object by name."""
        return [(name, JsonValue(value, self, name)) for name, value in self._object().items()]

    def optional(self, name: str, read: Callable[[JsonValue], T]) -> T | None:
        """Return what `read` makes of a member, None where it is missing or null."""
        found = self.get(name)
        return None if found is None else read(found)

    def is_set(self, name: str, default: bool = False) -> bool:
        """Return a member that is a flag, or the default."""
        found = self.get(name)
        return default if found is None else found.flag

    # -- objects of a program -----------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """` (file.p4:12)` for an object with source information, else nothing."""
        info = self.get("source_info")
        if info is None or info.get("line") is None:
            return ""
        return f" ({info.optional('filename', lambda name: name.prose) or ''}:{info['line'].whole()})"

    def new_name(self, known: Container[str], what: str) -> str:
        """Return an object's name, which no other of its kind has."""
        name = self["name"].text
        if name in known:
            raise PipelineError(f"{what} {name}{self.where}: the name is taken")
        return name

    def new_id(self, known: Container[int], what: str) -> int:
        """Return an object's id, which no other of its kind has."""
        number = self["id"].whole()
        if number in known:
            raise PipelineError(f"{what} {self['name'].text}{self.where}: the id {number} is taken")
        return number

    # -- scalars ------------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """A name or word: printable, and not long."""
        if not isinstance(self.value, str) or not self.value.isprintable() or not 0 < len(self.value) <= MAX_NAME:
            raise self.refused("a name")
        return self.value

    def one_of(self, names: Container[str]) -> str | None:
        """Return the name of the next node, None for the end."""
        name = None if self.value is None else self.text
        if name is not None and name not in names:
            raise self.refused("the name of a parser state, table, condition or null")
        return name

    @property
    def prose(self) -> str:
        """A text for messages; unprintable characters are escaped."""
        if not isinstance(self.value, str):
            raise self.refused("a text")
        return self.value if self.value.isprintable() else self.value.encode("unicode_escape").decode("ascii")

    @property
    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value

    def whole(self, most: int = (1 << 31) - 1, least: int = 0) -> int:
        """Return a whole number within bounds."""
        if type(self.value) is not int:
            raise self.refused("a whole number")
        if not least <= self.value <= most:
            raise self.refused(f"a number from {least} to {most}")
        return self.value

    @property
    def hexstr(self) -> int:
        """The number in a hexadecimal text, which may be negative and may lack its 0x."""
        if not isinstance(self.value, str) or len(self.value) > MAX_DIGITS:
            raise self.refused("a hexadecimal number")
        try:
            return int(self.value, 16)
        except ValueError:
            raise self.refused("a hexadecimal number") from None


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Add the enclosing item to a refusal."""
    try:
        yield
    except PipelineError as error:
        raise PipelineError(f"{error}, in {what}") from error


def parse(text: str | bytes) -> JsonValue:
    """Return the value in a JSON text. Raises PipelineError."""
    if len(text) > MAX_BYTES:
        raise PipelineError(f"device configuration has {len(text)} bytes; the most is {MAX_BYTES}")
    try:
        return JsonValue(json.loads(text, parse_int=_integer))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else ascii(str(error))[1:-1]
        raise PipelineError(f"device configuration is not JSON: {reason}") from error


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
