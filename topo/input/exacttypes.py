"""Models that refuse `true` and quoted numbers as numbers, `yes` and 1 as true or false; pydantic accepts them."""

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator


class _NotBoolean(str):
    """Text in place of a value that is not `true` or `false`: pydantic refuses it, and messages show that value."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


class ExactTypes(BaseModel):
    """Model whose fields of numbers refuse `true`, `false` and, unless they parse text such as `2ms`, quoted ones.

    Its fields of `true` and `false` refuse all else, such as YAML 1.1's `yes`, as the JSON schema does.
    """

    model_config = ConfigDict(defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _others_as_text(cls, data: Any) -> Any:
        return others_as_text(cls, data)


def others_as_text(model: type[BaseModel], data: Any) -> Any:
    """Return a model's data with values of a wrong type as text, which its fields then refuse."""
    if not isinstance(data, Mapping):
        return data
    texts = {}
    for name, value in data.items():
        if _has(bool, value) and _is_number(model, name):
            texts[name] = _text(value)
        elif _has(str, value) and _is_number(model, name) and not _parses_text(model, name):
            texts[name] = _quoted(value)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and _is_boolean(model, name):
            texts[name] = _NotBoolean("neither")
            texts[name].value = value
    return {**data, **texts} if texts else data


def _has(kind: type, value: Any) -> bool:
    return isinstance(value, kind) or (isinstance(value, (list, tuple)) and any(isinstance(one, kind) for one in value))


def _text(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else value


def _quoted(value: Any) -> Any:
    """Return a number in quotes with these quotes."""
    if isinstance(value, (list, tuple)):
        return [_quoted(one) for one in value]
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    return f'"{value}"' if isinstance(value, str) else value


@cache
def _is_number(model: type[BaseModel], name: str) -> bool:
    kinds = set(_of_field(model, name))
    return bool(kinds & {int, float}) and not kinds & {bool, str}


@cache
def _is_boolean(model: type[BaseModel], name: str) -> bool:
    kinds = {kind for kind in _of_field(model, name) if isinstance(kind, type) or get_origin(kind)}
    return bool in kinds and kinds <= {bool, NoneType}


@cache
def _parses_text(model: type[BaseModel], name: str) -> bool:
    """Return True if a field of numbers takes text too, such as `2ms`."""
    return any(isinstance(part, BeforeValidator) for part in _of_field(model, name))


def _of_field(model: type[BaseModel], name: str) -> list[Any]:
    """Return the classes that a field accepts, and all its metadata; nothing where the model has no such field."""
    fields = model.model_fields
    field = fields.get(name) or next((field for field in fields.values() if field.alias == name), None)
    return [] if field is None else [*_parts(field.annotation), *field.metadata]


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the classes that an annotation accepts, those of the entries of a list among them, and all metadata."""
    if get_origin(annotation) in {Annotated, Union, UnionType, list, tuple}:
        for each in get_args(annotation):
            yield from _parts(each)
    else:
        yield annotation
