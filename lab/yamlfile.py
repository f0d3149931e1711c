"""YAML with line numbers: reads a file, and turns pydantic's errors into sentences that name line, field and remedy."""

import difflib
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from lab.errors import ScenarioError

Location = Sequence[int | str]


class Document:
    """One YAML file: `data` as plain dicts and lists, and the line on which each place of it stands."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.text = text
        self._root = self._parse(text)
        self.data: dict[str, Any] = _plain(self._root)

    def _parse(self, text: str) -> CommentedMap:
        try:
            root = YAML(typ="rt", pure=True).load(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            problem = str(error.problem or error.context or "cannot be read").splitlines()[0]
            raise ScenarioError([f"{self.name}:{line}: this is no valid YAML: {problem}"]) from None
        except YAMLError as error:
            raise ScenarioError([f"{self.name}: this is no valid YAML: {str(error).splitlines()[0]}"]) from None
        if not isinstance(root, CommentedMap):
            raise ScenarioError(
                [f"{self.name}:1: a scenario is a mapping of fields such as fabric, traffic and faults"]
            )
        return root

    def line(self, location: Location) -> int:
        """The line, counted from 1, of the innermost part of `location` that the file has."""
        node: Any = self._root
        line = 0
        for part in location:
            try:
                if isinstance(node, CommentedMap) and part in node:
                    line = node.lc.key(part)[0]
                elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                    line = node.lc.item(part)[0]
                else:
                    continue  # the tag of a union, or a field that is missing
            except (KeyError, TypeError):
                break
            node = node[part]
        return int(line) + 1

    def at(self, location: Location, message: str) -> str:
        """`file:line: field: message`."""
        return f"{self.name}:{self.line(location)}: {self.field(location)}: {message}"

    def field(self, location: Location) -> str:
        """The place as people write it, without union tags: `faults[1].link`."""
        text = ""
        node: Any = self._root
        for position, part in enumerate(location):
            known = isinstance(node, CommentedMap) and part in node
            if isinstance(part, int):
                text += f"[{part + 1}]"
            elif known or (position == len(location) - 1 and not _is_tag(node, part)):
                text += f".{part}" if text else str(part)
            else:
                continue
            node = _child(node, part)
        return text or "scenario"


def read(path: Path) -> Document:
    """Read a YAML file; ScenarioError when it is missing, unreadable or no YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScenarioError([f"there is no file {path}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([f"{path} cannot be read: {error}"]) from None
    return Document(text, str(path))


def _plain(node: Any) -> Any:
    if isinstance(node, CommentedMap):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(value) for value in node]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def _is_tag(node: Any, part: str) -> bool:
    """Whether a part of a location only says which of a union's kinds was meant."""
    return isinstance(node, CommentedMap) and node.get("kind") == part


def _child(node: Any, part: int | str) -> Any:
    try:
        return node[part]
    except (KeyError, IndexError, TypeError):
        return None


def message(item: Any, model: type[BaseModel]) -> str:
    """What is wrong, and the remedy, for one of the errors that pydantic lists."""
    kind, given = item["type"], item.get("input")
    if kind == "extra_forbidden":
        return "no such field; " + nearest(str(item["loc"][-1]), sorted(_fields(model, item["loc"][:-1])))
    if kind == "missing":
        return "this field is missing"
    if kind == "literal_error":
        known = [word.strip(" '") for word in item["ctx"]["expected"].replace(" or ", ",").split(",")]
        return f"{given!r} is unknown; " + nearest(str(given), known)
    if kind == "union_tag_invalid":
        known = [word.strip(" '") for word in item["ctx"]["expected_tags"].split(",")]
        return f"kind {item['ctx']['tag']!r} is unknown; " + nearest(str(item["ctx"]["tag"]), known)
    if kind == "union_tag_not_found":
        return "the field kind is missing; it says what this entry is"
    text = str(item["msg"]).removeprefix("Value error, ")
    shown = f" (got {given!r})" if kind != "value_error" and isinstance(given, (str, int, float, bool)) else ""
    return f"{text[:1].lower()}{text[1:]}{shown}"


def nearest(word: str, known: Sequence[str]) -> str:
    """`did you mean 'x'?`, or the list of what is known where nothing is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else "known here: " + ", ".join(known)


def _fields(model: type[BaseModel], location: Location) -> set[str]:
    """Names of the fields, as written in YAML, that are valid at a place."""
    types: list[Any] = [model]
    for part in location:
        types = [inner for kind in types for inner in _step(kind, part)]
    return {name for kind in types for name in _names(kind)}


def _names(kind: Any) -> list[str]:
    """What a mapping of this type may hold: fields of a model, or the names that an annotation knows."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [field.alias or name for name, field in kind.model_fields.items()]
    return list(kind.names)


def _step(kind: Any, part: int | str) -> Iterator[Any]:
    """What is reached from a model by one part of a pydantic location."""
    if isinstance(part, int):
        yield kind
        return
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    if _tag(kind) == part:  # a kind may have a field of its own name
        yield kind
    elif part in fields:
        yield from _models(fields[part].annotation)
        yield from (mark for mark in fields[part].metadata if hasattr(mark, "names"))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """All models named in an annotation, through lists, unions and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {list, tuple, dict, Union, UnionType, Annotated}:
        for inner in get_args(annotation):
            yield from _models(inner)


def _tag(kind: type[BaseModel]) -> str | None:
    """The value of a model's `kind`, where it is one of a tagged union."""
    field = kind.model_fields.get("kind")
    if field is None or typing.get_origin(field.annotation) is not Literal:
        return None
    return str(get_args(field.annotation)[0])
