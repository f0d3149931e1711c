"""Registry of kinds: classes told apart by the value of their `kind` field, from this tree and from installed packages.

A family (faults, traffic, expectations) is a package whose modules register their classes as they are imported. Unions,
schema, references, completion and error messages are derived from the registry; a new kind is one class in one file.
A package outside this tree adds kinds by an entry point of the family's group, whose value names a module:

    [project.entry-points."mrclab.faults"]
    brownout = "my_package.brownout"
"""

from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from mrclab.topo.registry import KindError, import_entry_points, import_modules

WorldName = Literal["wire", "sim"]
M = TypeVar("M", bound=BaseModel)


def kind_of(model: type[BaseModel]) -> str | None:
    """The value of a model's `kind`; None where it has no such field of exactly one value."""
    field = model.model_fields.get("kind")
    if field is None or get_origin(field.annotation) is not Literal:
        return None
    values = get_args(field.annotation)
    return str(values[0]) if len(values) == 1 else None


def unsupported(kind: str, worlds: frozenset[WorldName], world: WorldName) -> str:
    """Return one phrase: a kind that means something in `worlds` is not supported in another one."""
    names = {"wire": "on the wire", "sim": "in virtual time"}
    supported = " and ".join(names[each] for each in sorted(worlds))
    return f"{kind} is not supported {names[world]}, only {supported}"


class _AsNeeded:
    """Annotation of a union of kinds: the validator of a kind is built when a value of that kind is first validated.

    Building all of them takes most of the time to load a scenario, which has a few.
    """

    def __init__(self, models: tuple[type[BaseModel], ...]) -> None:
        self._models = models
        self._by_kind = {kind_of(model) or "": model for model in models}
        self._validators: dict[str, SchemaValidator] = {}
        self._refusing: SchemaValidator | None = None

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del handler  # would build them all
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        del schema
        union: Any = Annotated[Union[self._models], Field(discriminator="kind")]  # noqa: UP007 (made at run time)
        return handler(TypeAdapter(union).core_schema)

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        validator = self._of(kind) if isinstance(kind, str) and kind in self._by_kind else self._refusal()
        return validator.validate_python(value, context=info.context)

    def _of(self, kind: str) -> SchemaValidator:
        """Return the validator of a kind; the tag is part of the place of its mistakes, as in any tagged union."""
        found = self._validators.get(kind)
        if found is None:
            model = self._by_kind[kind]
            model.model_rebuild()
            schema = model.__pydantic_core_schema__
            found = self._validators[kind] = SchemaValidator(core_schema.tagged_union_schema({kind: schema}, "kind"))
        return found

    def _refusal(self) -> SchemaValidator:
        """Return a validator that tells what is wrong with a value of no kind."""
        if self._refusing is None:
            nothing = core_schema.any_schema()
            union = core_schema.tagged_union_schema(dict.fromkeys(self._by_kind, nothing), "kind")
            self._refusing = SchemaValidator(union)
        return self._refusing


class Kinds(Generic[M]):
    """The kinds of one family, in the order of registration.

    `family` is the noun for messages, `group` the group of entry points.
    """

    def __init__(self, family: str, group: str) -> None:
        self.family = family
        self.group = group
        self._models: dict[str, type[M]] = {}

    def register(self, model: type[M]) -> type[M]:
        """Register a class under the value of its `kind`; a class decorator.

        Raises KindError where the class has no `kind` of one value, or another class has the same one.
        """
        kind = kind_of(model)
        if kind is None:
            raise KindError(f'{model.__name__}: a {self.family} needs a field `kind: Literal["name"]`')
        other = self._models.setdefault(kind, model)
        if (other.__module__, other.__qualname__) != (model.__module__, model.__qualname__):
            raise KindError(
                f"{self.family} {kind!r} of {model.__module__} is registered by {other.__module__}; choose another name"
            )
        self._models[kind] = model
        return model

    def load(self, package: str) -> None:
        """Import all modules of a package, then those that entry points name: each registers its kinds.

        Raises KindError, with the distribution's name, where a module of an entry point cannot be imported.
        """
        import_modules(package)
        import_entry_points(self.family, self.group)

    def union(self) -> Any:
        """The pydantic type that accepts every kind, told apart by `kind`."""
        models = tuple(self._models.values())
        return Annotated[Union[models], Field(discriminator="kind"), _AsNeeded(models)]  # noqa: UP007 (made at run time)

    def __iter__(self) -> Iterator[type[M]]:
        return iter(self._models.values())

    def __contains__(self, kind: object) -> bool:
        return kind in self._models

    def __getitem__(self, kind: str) -> type[M]:
        return self._models[kind]

    @property
    def names(self) -> tuple[str, ...]:
        """The value of `kind` of every class."""
        return tuple(self._models)
