"""YAML with line numbers: reads files, and turns pydantic's errors into sentences with line, field and remedy."""

import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from mrclab.lab.errors import ScenarioError
from mrclab.lab.kinds import OneKind, kind_of
from mrclab.topo import fabricfile
from mrclab.topo.input import files, sentences
from mrclab.topo.input.sentences import nearest

Location = Sequence[int | str]
Place = tuple[int | str, ...]

_MAX_TEXT = 1_000_000  # characters of a file
_MAX_BYTES = 4 * _MAX_TEXT  # of them, in UTF-8
_MAX_VALUE = 10_000  # characters, and values, of an assignment on a command line
_MAX_BITS = 1024  # digits of a whole number: more than any field takes
_MAX_PLACES = 100_000  # values in a file, those that aliases repeat counted each time
_MAX_BRACKETS = 500  # nested brackets, those in quotes included
_BRACKET = re.compile(r"[\[\]{}]")
_MAX_DEPTH = 40  # nested mappings and lists
_MAX_SHOWN = 60  # characters of a value in a message
_MAX_MESSAGE = 400  # characters of a message, which may repeat a value itself

_IN_A_FILE = {  # pydantic's name of an error → how a file has it right
    "model_attributes_type": ", such as `name: value`",
    "dict_type": ", such as `name: value`",
    "list_type": "; begin every entry with a dash",
    "tuple_type": "; begin every entry with a dash",
    "string_type": "; put it in quotes",
}

_NEEDS_VALUE = {"string_type", "int_type", "float_type", "bool_type", "literal_error"}


class Document:
    """One YAML file: `data` as plain dicts and lists, and the line of each place in it."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.text = text
        self._lines: dict[Place, int] = {}
        self.data: dict[str, Any] = self._plain(self._parse(text), [_MAX_PLACES], (), 0)

    def _parse(self, text: str) -> CommentedMap:
        if len(text) > _MAX_TEXT:
            raise ScenarioError([f"{self.name}: a scenario has at most {_MAX_TEXT} characters; this file has more"])
        if _brackets(text) > _MAX_BRACKETS:
            raise ScenarioError([f"{self.name}: lists and mappings are nested too deeply; flatten them"])
        try:
            root = YAML(typ="rt", pure=True).load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise ScenarioError([f"{self.name}:{line}: this is not valid YAML: {_problem(error)}"]) from None
        except YAMLError as error:
            raise ScenarioError([f"{self.name}: this is not valid YAML: {str(error).splitlines()[0]}"]) from None
        except RecursionError:
            raise ScenarioError([f"{self.name}: lists and mappings are nested too deeply; flatten them"]) from None
        except fabricfile.UNREADABLE as error:  # invalid number or date
            what = _short(str(error))
            raise ScenarioError([f"{self.name}: a value cannot be read; put it in quotes: {what}"]) from None
        if not isinstance(root, CommentedMap):
            raise ScenarioError(
                [f"{self.name}:1: a scenario is a mapping of fields such as fabric, traffic and faults"]
            )
        return root

    def _plain(self, node: Any, left: list[int], place: Place, line: int) -> Any:
        """Convert to plain dicts, lists and values, and note the line of each; ScenarioError for endless aliases, or a
        key that is no text.
        """
        left[0] -= 1
        if left[0] < 0 or len(place) > _MAX_DEPTH:
            what = "nested too deeply, or an alias within what it repeats" if left[0] >= 0 else "repeated by aliases"
            raise ScenarioError([f"{self.name}:{line + 1}: this is {what}; write it out in full"])
        self._lines[place] = line
        if isinstance(node, CommentedMap):
            for key in node:
                if not isinstance(key, str):
                    at = _line_of(node, key, line)
                    name = sentences.shown(key)
                    raise ScenarioError([f"{self.name}:{at + 1}: {name}: a field is named by text; put it in quotes"])
            return {
                str(key): self._plain(value, left, (*place, str(key)), _line_of(node, key, line))
                for key, value in node.items()
            }
        if isinstance(node, CommentedSeq):
            return [
                self._plain(value, left, (*place, index), _line_of(node, index, line))
                for index, value in enumerate(node)
            ]
        if isinstance(node, bool) or node is None:
            return node
        if isinstance(node, int) and node.bit_length() > _MAX_BITS:
            raise ScenarioError(
                [f"{self.name}:{line + 1}: {sentences.shown(int(node))} is too large; write a smaller one"]
            )
        for kind in (int, float, str):
            if isinstance(node, kind):
                return kind(node)
        return str(node) if isinstance(node, datetime.date) else node  # YAML 1.2 knows no dates

    def line(self, location: Location) -> int:
        """Return the line, counted from 1, of the innermost part of `location` that the file has."""
        place = without_tags(self.data, location)
        while place not in self._lines:
            place = place[:-1]
        return self._lines[place] + 1

    def at(self, location: Location, message: str) -> str:
        """Format a mistake: `file:line: field: message`."""
        if len(message) > _MAX_MESSAGE:
            message = f"{message[: _MAX_MESSAGE // 2]} … {message[-_MAX_MESSAGE // 2 :]}"
        return f"{self.name}:{self.line(location)}: {self.field(location)}: {message}"

    def field(self, location: Location) -> str:
        """Return the place as in the file, without union tags: `faults[1].link`."""
        parts = without_tags(self.data, location)
        text = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in parts)
        return text.removeprefix(".") or "scenario"


def without_tags(node: Any, location: Location) -> Place:
    """Return a pydantic location in some data without the tags of unions, which a field may be called like."""
    place: list[int | str] = []
    tagged = False  # True behind a tag
    for position, part in enumerate(location):
        child = _child(node, part)
        last = position == len(location) - 1
        tag = isinstance(node, dict) and node.get("kind") == part and not tagged
        found = isinstance(child, (dict, list)) or (last and (child is not None or not tag))
        if found or isinstance(part, int):
            place.append(part)
            node, tagged = child, False
        else:
            tagged = True
    return tuple(place)


def read(path: Path, *, follow: bool = True) -> Document:
    """Read a YAML file; ScenarioError if it is missing, no regular file, too large, or no YAML."""
    return Document(text_of(path, follow=follow), str(path))


def text_of(path: Path, *, follow: bool = True) -> str:
    """Return a file's text; ScenarioError if it is missing, no regular file, too large, or no text."""
    try:
        str(path).encode()
        return files.read_text(path, _MAX_BYTES, follow=follow)
    except UnicodeEncodeError:
        raise ScenarioError([f"{str(path)!r}: this name is not UTF-8; rename the file or its folder"]) from None
    except FileNotFoundError:
        raise ScenarioError([f"there is no file {path}"]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{path} is not text: byte {error.start + 1} is not UTF-8; save it as UTF-8"]) from None
    except OSError as error:
        raise ScenarioError([f"{path} cannot be read: {error.strerror or error}"]) from None


def parse_value(text: str) -> Any:
    """Parse YAML from a command line or the prompt; ValueError with one sentence."""
    if _brackets(text) > _MAX_BRACKETS:
        raise ValueError("this is nested too deeply; flatten it")
    if len(text) > _MAX_VALUE:
        raise ValueError(f"this has {len(text)} characters; write at most {_MAX_VALUE}")
    try:
        made = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        raise ValueError(f"this is not valid YAML: {_problem(error)}; put text in quotes") from None
    except fabricfile.UNREADABLE as error:
        raise ValueError(f"this is not valid YAML: {_short(' '.join(str(error).split()))}") from None
    _check_size(made, [_MAX_VALUE], 0)
    return made


def _problem(error: MarkedYAMLError) -> str:
    """Return the parser's message in one line, with the remedy where there is one."""
    problem = str(error.problem or error.context or "it cannot be read").splitlines()[0]
    if "another document" in problem:
        return "a second document begins here; keep one scenario in a file, and leave out ---"
    return problem + ("; indent with spaces" if "\\t" in problem else "")


def _brackets(text: str) -> int:
    """Return the depth of nested brackets, for which the parser takes quadratic time."""
    deepest = depth = 0
    for found in _BRACKET.finditer(text):
        depth = depth + 1 if found[0] in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _check_size(value: Any, left: list[int], depth: int) -> None:
    """Raise ValueError if aliases repeat too much, or a number is too large to be printed."""
    left[0] -= 1
    if left[0] < 0 or depth > _MAX_DEPTH:
        raise ValueError("this is nested too deeply or repeated by aliases; write it out in full")
    if isinstance(value, int):
        sentences.brief(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_size(inner, left, depth + 1)


def _line_of(node: CommentedMap | CommentedSeq, key: Any, otherwise: int) -> int:
    try:
        return int(node.lc.data[key][0])
    except (KeyError, TypeError, AttributeError):
        return otherwise


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _child(node: Any, part: int | str) -> Any:
    try:
        return node[part]
    except (KeyError, IndexError, TypeError):
        return None


def messages(item: Any, model: type[BaseModel]) -> list[str]:
    """Return the messages of an error that holds several sentences, one a line."""
    if item["type"] != "value_error":
        return [message(item, model)]
    return [message({**item, "msg": line}, model) for line in str(item["msg"]).splitlines()]


def message(item: Any, model: type[BaseModel]) -> str:
    """Return the mistake and the remedy for one of pydantic's errors."""
    kind, given, text = item["type"], item.get("input"), sentences.mistake(item)
    if given is None and (kind in _NEEDS_VALUE or text.startswith("None is ")):
        return "this field has no value; write one, or leave the field out"
    if unknown := _unknown_word(item, model):
        return unknown
    if kind == "string_type" and isinstance(given, (list, dict)):
        return f"text is expected here, not a {'list' if isinstance(given, list) else 'mapping'}"
    if kind == "value_error":
        return text
    text += _IN_A_FILE.get(kind, "")
    shown = f" (got {sentences.shown(given)})" if isinstance(given, (str, int, float)) else ""
    return f"{text[:1].lower()}{text[1:]}{shown}"


def _unknown_word(item: Any, model: type[BaseModel]) -> str:
    """Return the mistake and the nearest known word, where a field, a kind or a word is unknown; otherwise nothing."""
    kind, given = item["type"], item.get("input")
    if kind == "extra_forbidden":
        return "no such field; " + nearest(str(item["loc"][-1]), sorted(_fields(model, item["loc"][:-1])))
    if kind == "literal_error":
        known = [word.strip(" '") for word in item["ctx"]["expected"].replace(" or ", ",").split(",")]
        return f"{sentences.shown(given)} is unknown; " + nearest(_short(str(given)), known)
    if kind != "union_tag_invalid":
        return ""
    if given.get("kind") is None:
        return "the field kind has no value; it says what this entry is"
    known = [word.strip(" '") for word in item["ctx"]["expected_tags"].split(",")]
    tag = str(item["ctx"]["tag"])
    return f"kind {sentences.shown(tag)} is unknown; " + nearest(_short(tag), known)


def without_echoes(items: Sequence[Any], model: type[BaseModel]) -> list[Any]:
    """Return errors without those that only repeat another: a field that is missing because it is misspelt."""
    meant = set()
    for item in items:
        if item["type"] == "extra_forbidden":
            name = sentences.near(str(item["loc"][-1]), sorted(_fields(model, item["loc"][:-1])))
            meant |= {(*item["loc"][:-1], name)} if name else set()
    return _merged([item for item in items if item["type"] != "missing" or tuple(item["loc"]) not in meant], model)


def _merged(items: Sequence[Any], model: type[BaseModel]) -> list[Any]:
    """Return errors with one in place of those of each type that a plain value may have, such as a number or `mean`."""
    places: dict[tuple[Any, ...], list[Any]] = {}
    for item in items:
        at = tuple(item["loc"])
        of_type = at and item["type"] not in {"missing", "extra_forbidden"} and at[-1] not in _fields(model, at[:-1])
        places.setdefault(at[:-1] if of_type and isinstance(at[-1], str) else at, []).append(item)
    return [_any_of(place, them, model) if len(them) > 1 else them[0] for place, them in places.items()]


def _any_of(place: Location, items: Sequence[Any], model: type[BaseModel]) -> Any:
    """Return one error that names the words which a field also takes."""
    words = [item["ctx"]["expected"] for item in items if item["type"] == "literal_error"]
    first = next((item for item in items if item["type"] != "literal_error"), items[0])
    text, got, given = message(first, model).partition(" (got ")
    also = f", or {' or '.join(words)}" if words and first not in words else ""
    return {**first, "type": "value_error", "loc": place, "msg": f"{text}{also}{got}{given}"}


def _fields(model: type[BaseModel], location: Location) -> set[str]:
    """Return the names of the valid fields at a place, as written in YAML."""
    types: list[Any] = [model]
    for part in location:
        if isinstance(part, str):
            types = [inner for kind in types for inner in _step(kind, part)]
    return {name for kind in types for name in _names(kind)}


def _names(kind: Any) -> list[str]:
    """Return the names that a mapping of this type allows: fields of a model, or names that an annotation lists."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [field.alias or name for name, field in kind.model_fields.items()]
    return list(kind.names)


def _step(kind: Any, part: str) -> Iterator[Any]:
    """Yield the types that a name in a pydantic location leads to."""
    kind = getattr(kind, "model", kind)  # whose fields an annotation lists
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    if kind_of(kind) == part:  # a kind may have a field with that name
        yield kind
    elif part in fields:
        for inner in (fields[part].annotation, *fields[part].metadata):
            yield from _models(inner)
        yield from (mark for mark in fields[part].metadata if hasattr(mark, "names"))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield all models in an annotation, through lists, unions and Annotated."""
    if isinstance(annotation, OneKind):
        yield from annotation.kinds
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {list, tuple, dict, Union, UnionType, Annotated}:
        for inner in get_args(annotation):
            yield from _models(inner)


class ScenarioContent:
    """A scenario as its file has it: `data` as plain dicts and lists, which nobody changes, and its text."""

    def __init__(self, data: Mapping[str, Any], text: str | None = None) -> None:
        self.data, self._text = data, text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScenarioContent) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> str:
        """YAML: the file's, or made of the data."""
        if self._text is None:
            self._text = dumped(self.data)
        return self._text


def dumped(data: Mapping[str, Any]) -> str:
    """Return a scenario's data as YAML."""
    out = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 120
    yaml.dump(dict(data), out)
    return out.getvalue()
