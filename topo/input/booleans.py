"""`true` and `false` where a number is expected: pydantic would take them for 1 and 0."""

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator


class NoBooleanNumbers(BaseModel):
    """Model whose fields of numbers refuse `true` and `false`."""

    model_config = ConfigDict(defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _booleans_as_text(cls, data: Any) -> Any:
        return booleans_as_text(cls, data)


def booleans_as_text(model: type[BaseModel], data: Any) -> Any:
    """Return the data of a model with `true` and `false` as text in fields of numbers, which then refuse them."""
    if not isinstance(data, Mapping):
        return data
    texts = {name: _text(value) for name, value in data.items() if _has_boolean(value) and _is_number(model, name)}
    return {**data, **texts} if texts else data


def _text(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else value


def _has_boolean(value: Any) -> bool:
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
