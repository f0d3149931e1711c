"""`true` and `false` where a number is expected: pydantic would take them for 1 and 0."""

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


def as_words(model: type[BaseModel], data: Any) -> Any:
    """Return the data of a model with `true` and `false` as text in fields of numbers, which then refuse them."""
    if not isinstance(data, Mapping):
        return data
    words = {name: _word(value) for name, value in data.items() if _is_truth(value) and _is_number(model, name)}
    return {**data, **words} if words else data


def _word(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_word(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else value


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, (list, tuple)) and any(isinstance(one, bool) for one in value))


def _is_number(model: type[BaseModel], name: str) -> bool:
    fields = model.model_fields
    field = fields.get(name) or next((field for field in fields.values() if field.alias == name), None)
    kinds = _kinds(field.annotation) if field is not None else set()
    return bool(kinds & {int, float}) and bool not in kinds


def _kinds(annotation: Any) -> set[Any]:
    """Return the classes that an annotation accepts, those of the entries of a list among them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in {Union, UnionType, list, tuple}:
        return set().union(*map(_kinds, get_args(annotation)))
    return {annotation}
