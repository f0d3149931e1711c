"""Registry of kinds: classes by the value of their `kind` field, from this tree and from installed packages.

A family (faults, traffic, expectations) is a package whose modules register their classes as they are imported, which
happens when one of their kinds is first looked up. Unions, schema, references, completion and error messages are
derived from the registry; a new kind is one class in one file. A package outside this tree adds kinds by an entry point
of the family's group, whose value names a module:

    [project.entry-points."mrclab.faults"]
    brownout = "my_package.brownout"
"""

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from mrclab.topo.config.registry import KindError, enter, import_entry_points, import_modules, modules
from mrclab.topo.input.sentences import listed

WorldName = Literal["wire", "sim"]
TargetName = Literal["soft", "bmv2"]  # P4 switches of the wire
_KIND = b'\n    kind: Literal["'
M = TypeVar("M", bound=BaseModel)


def kind_of(model: type[BaseModel]) -> str | None:
    """The value of a model's `kind`; None where it has no such field of exactly one value."""
    field = model.model_fields.get("kind")
    if field is None or get_origin(field.annotation) is not Literal:
        return None
    values = get_args(field.annotation)
    return str(values[0]) if len(values) == 1 else None


def unsupported(kind: str, worlds: frozenset[WorldName], world: WorldName) -> str:
    """Return one phrase: a kind that only `worlds` support is not supported in another world."""
    names = {"wire": "on the wire", "sim": "in virtual time"}
    supported = " and ".join(names[each] for each in sorted(worlds))
    return f"{kind} is not supported {names[world]}, only {supported}"


class OneKind(Generic[M]):
    """Annotation of a value of some kind of a family: a union discriminated by `kind`, as pydantic has it.

    The validator of a kind is built when a value of that kind is first validated. Building all of them takes most of
    the time to load a scenario, which has a few.
    """

    def __init__(self, kinds: "Kinds[M]") -> None:
        self.kinds = kinds
        self._validators: dict[str, SchemaValidator] = {}

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        union: Any = Annotated[Union[tuple(self.kinds)], Field(discriminator="kind")]  # noqa: UP007 (made at run time)
        return handler(TypeAdapter(union).core_schema)

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        validator = self._of(kind) if isinstance(kind, str) and kind in self.kinds else self._refusal()
        return validator.validate_python(value, context=info.context)

    def _of(self, kind: str) -> SchemaValidator:
        """Return the validator of a kind; the tag is part of the place of its mistakes, as in any tagged union."""
        found = self._validators.get(kind)
        if found is None:
            model = self.kinds[kind]
            model.model_rebuild()
            union = core_schema.tagged_union_schema({kind: model.__pydantic_core_schema__}, "kind")
            found = self._validators[kind] = SchemaValidator(union)
        return found

    def _refusal(self) -> SchemaValidator:
        """Return a validator that reports a value of an unknown kind."""
        nothing = core_schema.any_schema()
        return SchemaValidator(core_schema.tagged_union_schema(dict.fromkeys(self.kinds.names, nothing), "kind"))


class Kinds(Generic[M]):
    """The kinds of one family, in the order of their modules.

    `family` is the noun for messages, `group` the group of entry points. The kinds of this tree are in the modules of
    `package`, and in `others`, which need all of those. A module is imported when one of its kinds is first looked up;
    all of them, and those of other packages, when all kinds are listed or a kind is not known here.
    """

    def __init__(self, family: str, group: str, package: str, *others: str) -> None:
        self.family = family
        self.group = group
        self._package = package
        self._others = others
        self._models: dict[str, type[M]] = {}
        self._loaded = False

    @cached_property
    def _places(self) -> dict[str, str]:
        """Modules of this tree by kind."""
        return {kind: module for module in (*modules(self._package), *self._others) for kind in _kinds_in(module)}

    def register(self, model: type[M]) -> type[M]:
        """Register a class under the value of its `kind`; a class decorator.

        Raises KindError where the class has no `kind` of one value, lacks an abstract method of its base, or another
        class has the same kind.
        """
        kind = kind_of(model)
        if kind is None:
            raise KindError(f'{model.__name__}: a kind of {self.family} needs a field `kind: Literal["name"]`')
        if missing := [*sorted(model.__abstractmethods__), *getattr(model, "missing", list)()]:
            raise KindError(f"{model.__name__}: a kind of {self.family} needs {listed(missing)}")
        enter(self._models, self.family, kind, model)
        return model

    def load(self) -> None:
        """Import all modules of this tree, and those that entry points name: each registers its kinds.

        Raises KindError, with the distribution's name, where a module of an entry point cannot be imported.
        """
        if self._loaded:
            return
        self._loaded = True
        try:
            import_modules(self._package)
            import_entry_points(self.family, self.group)
            for module in self._others:
                import_module(module)
        except BaseException:
            self._loaded = False
            raise

    def union(self) -> Any:
        """The pydantic type that accepts every kind, discriminated by `kind`."""
        return Annotated[BaseModel, OneKind(self)]

    def __iter__(self) -> Iterator[type[M]]:
        return (self._models[kind] for kind in self.names)

    def __contains__(self, kind: object) -> bool:
        return self._find(kind) is not None

    def __getitem__(self, kind: str) -> type[M]:
        found = self._find(kind)
        if found is None:
            raise KeyError(kind)
        return found

    def get(self, kind: object, default: type[M]) -> type[M]:
        """Return the class of a kind, or `default` where it is not known here."""
        return self._find(kind) or default

    def _find(self, kind: object) -> type[M] | None:
        if not isinstance(kind, str):
            return None
        if kind not in self._models:
            place = self._places.get(kind)
            if place:
                import_module(place)
            else:
                self.load()
        return self._models.get(kind)

    @property
    def names(self) -> tuple[str, ...]:
        """The value of `kind` of every class; those of this tree first, whichever was imported first."""
        self.load()
        known = [kind for kind in self._places if kind in self._models]
        return tuple(dict.fromkeys([*known, *self._models]))


def _kinds_in(module: str) -> list[str]:
    """Return the kinds that a module's source defines, in their order; none where there is no source to read."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return []
    found = (rest.partition(b'"]')[0] for rest in Path(spec.origin).read_bytes().split(_KIND)[1:])
    return [kind.decode() for kind in found if b'"' not in kind]
