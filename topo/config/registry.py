"""Registries of algorithms by name: congestion controls, path selections and QP schedulers, of this tree and of others.

An algorithm is one class in one module. It registers itself as its module is imported, and is looked up by `name`. A
package outside this tree adds one by an entry point whose value names a module:

    [project.entry-points."mrclab.congestion_controls"]
    steady = "my_package.steady"

Modules of this tree are imported at the first look-up, those of other packages when a name is not known without them.
"""

import functools
import importlib
import inspect
import math
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from mrclab.topo.errors import TopoError
from mrclab.topo.input.quantities import parse_duration
from mrclab.topo.input.sentences import listed, nearest


class KindError(TopoError):
    """A kind that cannot be registered, or a package outside this tree that cannot be loaded."""


class Setting(NamedTuple):
    """A parameter that a scenario may set: its range, its meaning, and True in `seconds` where it may be a duration.

    `boolean` is True for one that is true or false.
    """

    meaning: str
    least: float = 0.0
    most: float = math.inf
    seconds: bool = False
    boolean: bool = False

    @property
    def type_name(self) -> str:
        """Noun of its values, for messages."""
        return "true or false" if self.boolean else "duration" if self.seconds else "number"


class Registry:
    """Algorithms by name. `family` is the noun for messages, `owner` names their user, e.g. mrc.

    `group` is the group of entry points, `package` that of the modules of this tree. A registered class has a `name`
    (in scenarios), a `profile` (its name in node configs; empty where it is the same) and `settings`, which it is given
    as keyword arguments. `needs` names the methods that its base class only declares.
    """

    def __init__(self, family: str, owner: str, group: str, package: str, needs: tuple[str, ...] = ()) -> None:
        self.family = family
        self.owner = owner
        self.group = group
        self._package = package
        self._needs = needs
        self._known: dict[str, Any] = {}  # by name
        self._profiles: dict[str, Any] = {}  # by the name in node configs
        self._loaded = 0  # 1: the modules of this tree, 2: other packages too

    def register(self, made: type[Any]) -> None:
        """Register a class under its name; KindError where it is incomplete, or another class has the same name."""
        name = getattr(made, "name", "")
        if not name:
            raise KindError(f'{made.__name__}: a {self.family} needs a name, such as name: ClassVar[str] = "steady"')
        if missing := [each for each in self._needs if _is_inherited(made, each)]:
            raise KindError(f"{made.__name__}: a {self.family} needs {listed(missing)}")
        if wrong := [each for each, setting in made.settings.items() if not isinstance(setting, Setting)]:
            raise KindError(
                f'{made.__name__}: the setting {wrong[0]} is not a Setting, such as Setting("packets", 0, 9)'
            )
        if unused := [each for each in made.settings if not _takes(made, each)]:
            raise KindError(f"{made.__name__}: the setting {unused[0]} is no parameter of its __init__; add it there")
        enter(self._known, self.family, name, made)
        self._profiles[getattr(made, "profile", "") or name] = made

    def find(self, name: str) -> Any | None:
        """Return the class of a name, in scenarios or in node configs; None if there is none."""
        for stage in (1, 2):
            self._load(stage)
            found = self._profiles.get(name) or self._known.get(name)
            if found is not None:
                return found
        return None

    def get(self, name: str) -> Any:
        """Return the class of a name; ValueError with all names where there is none."""
        found = self.find(name)
        if found is None:
            raise ValueError(f"{self.owner} has no {self.family} {name!r}; it has {listed(self.names)}")
        return found

    def choose(self, name: str, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the class of a name, and these settings as it takes them; ValueError names an unknown one."""
        found = self._profiles.get(name) or self.get(name)
        return found, checked(found, settings) if settings else {}

    def __iter__(self) -> Iterator[Any]:
        self._load(2)
        return iter([self._known[name] for name in sorted(self._known)])

    @property
    def names(self) -> tuple[str, ...]:
        """All names in scenarios, sorted."""
        self._load(2)
        return tuple(sorted(self._known))

    @property
    def profiles(self) -> tuple[str, ...]:
        """All names in node configs, sorted."""
        self._load(2)
        return tuple(sorted(self._profiles))

    def _load(self, stage: int) -> None:
        if self._loaded < 1 <= stage:
            self._loaded = 1
            import_modules(self._package)
        if self._loaded < 2 <= stage:
            self._loaded = 2
            import_entry_points(self.family, self.group)


def enter(known: dict[str, Any], family: str, name: str, made: type[Any]) -> None:
    """Enter a class under its name; KindError where another class has the same one."""
    other = known.setdefault(name, made)
    if (other.__module__, other.__qualname__) != (made.__module__, made.__qualname__):
        raise KindError(
            f"{family} {name!r} of {made.__module__} is registered by {other.__module__}; choose another name"
        )
    known[name] = made


def _is_inherited(made: type[Any], name: str) -> bool:
    """Return True if a class has a method of its topmost base class, unless it is that itself."""
    base = made.__mro__[-2]
    return base is not made and getattr(made, name, None) is getattr(base, name, None)


def _takes(made: type[Any], name: str) -> bool:
    """Return True if a class takes this keyword argument, or its `__init__` is compiled and does not tell."""
    init = made.__init__
    if init is object.__init__:
        return False
    if not isinstance(init, FunctionType):
        return True
    parameters = inspect.signature(init).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


class OneOf:
    """Annotation of a text: the names of registries, for schema and reference."""

    def __init__(self, *registries: Registry) -> None:
        self._registries = registries

    @property
    def names(self) -> list[str]:
        """Names of all registries, each once."""
        return sorted({name for registry in self._registries for name in registry.names})

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "enum": self.names}


def modules(package: str) -> list[str]:
    """Return the names of all modules of a package, sorted."""
    return [module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")]


def import_modules(package: str) -> None:
    """Import all modules of a package, in the order of their names."""
    for module in modules(package):
        importlib.import_module(module)


@functools.cache
def _entry_points(path: tuple[str, ...]) -> Any:  # noqa: ARG001 - key of the cache
    """All entry points of a search path, read once: each look goes through all installed packages."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes a moment, and few runs need one

    return entry_points()


def import_entry_points(family: str, group: str) -> None:
    """Import the modules of a group of entry points; KindError with the distribution's name if one fails."""
    for entry in _entry_points(tuple(sys.path)).select(group=group):
        try:
            entry.load()
        except Exception as error:
            owner = entry.dist.name if entry.dist is not None else entry.value
            raise KindError(
                f"{family} {entry.name!r} of {owner} cannot be loaded: {error}; fix or uninstall that package"
            ) from error


def outside_packages() -> set[str]:
    """Return the names of the packages outside this tree that add kinds or algorithms."""
    found = _entry_points(tuple(sys.path))
    groups = (group for group in found.groups if group.startswith("mrclab."))
    return {entry.value.partition(".")[0] for group in groups for entry in found.select(group=group)}


def checked(algorithm: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an algorithm's settings with durations in seconds; ValueError names the one that is wrong."""
    return {name: _checked(algorithm, name, value) for name, value in given.items()}


def _checked(algorithm: Any, name: str, value: Any) -> float | bool:
    known: Mapping[str, Setting] = algorithm.settings
    setting = known.get(name)
    if setting is None:
        raise ValueError(f"{algorithm.name} has no setting {name!r}; {nearest(name, sorted(known))}")
    if setting.boolean:
        if not isinstance(value, bool):
            raise ValueError(f"{name}: expected true or false, not {value!r}")
        return value
    number = parse_duration(value) if setting.seconds else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not _within(setting, number):
        bounded = math.isfinite(setting.most)
        limits = f"from {setting.least:g} to {setting.most:g}" if bounded else f"of at least {setting.least:g}"
        raise ValueError(f"{name}: expected a {setting.type_name} {limits}, not {value!r}")
    return number


def _within(setting: Setting, number: float) -> bool:
    return math.isfinite(number) and setting.least <= number <= setting.most
