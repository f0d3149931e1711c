"""Reference of scenario files, generated from the models.

`python -m mrclab.lab.scenario.reference` writes it into docs/.
"""

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mrclab import HOME
from mrclab.lab.expectations import Expectation
from mrclab.lab.faults.base import Fault
from mrclab.lab.faults.losses import LossModel
from mrclab.lab.kinds import OneKind, kind_of
from mrclab.lab.report.grid import markdown
from mrclab.lab.scenario.files.inputfile import FromFile
from mrclab.lab.scenario.scenario import Scenario
from mrclab.lab.scenario.sections.mapper import MapperSpec
from mrclab.lab.scenario.sections.trace import TraceSpec
from mrclab.lab.scenario.sections.transport import SET_ELSEWHERE, Overrides, ScenarioTransport
from mrclab.lab.scenario.sections.variants import Variant
from mrclab.lab.topology import Topology
from mrclab.lab.traffic.base import Traffic
from mrclab.topo.config.algorithms import CONGESTION_CONTROLS, PATH_SELECTIONS, QP_SCHEDULERS
from mrclab.topo.config.nodeconfig import EvProfileConfig, TransportSection
from mrclab.topo.config.registry import OneOf, Registry
from mrclab.topo.links import LinkRule
from mrclab.topo.spec import FabricSpec, LinkSpec, PfcSpec, QueueSpec

FILE = HOME / "docs" / "scenario-reference.md"

_WORDS = {
    "parse_duration": "duration",
    "parse_delay": "duration",
    "parse_size": "size",
    "parse_percent": "percentage",
    "parse_line_share": "share of line",
    "parse_trigger": "time",
    "parse_window": "window",
    "parse_moment": "moment",
    "parse_level": "level",
    "parse_limit": "number or share",
    "parse_depth": "packets or BDPs",
    "one_or_list": "name or list of names",
    "read_trace": "file",
    "known_host": "host",
    "_cable": "cable",
    "_switch": "switch",
    "_plane": "plane",
    "_some_hosts": "hosts",
    "_host_or_all": "hosts",
    "_valid_name": "host",
}
_PLAIN = {int: "number", float: "number", str: "text", bool: "true or false"}
_HEAD = """\
# Reference of scenario files

Made from the program's own models by `python -m mrclab.lab.scenario.reference`; [scenarios.md](scenarios.md)
explains them. **Bold** fields are needed, the others have the default that is shown. A *duration* is `500us`,
`20ms` or `3s`, a *size* `1000`, `4 KiB` or `64 MiB`, a *percentage* `5%`; a *time* is `3s`, `25% of NAME`,
`after NAME + 1s` or `NAME + 1s`, a *window*
`MOMENT .. MOMENT`, a *level* `90% of line` or `75% of NAME`.
"""


def build() -> str:
    """Return the page's text."""
    parts = [
        _HEAD,
        *_section("The file", Scenario),
        *_union("topology", Topology),
        *_section("fabric", FabricSpec),
        *_section("fabric.links", LinkRule),
        *_section("fabric.link", LinkSpec),
        *_section("fabric.queue", QueueSpec),
        *_section("fabric.queue.pfc", PfcSpec),
        *_section("transport", ScenarioTransport),
        *_overrides("transport.ev_profile", EvProfileConfig),
        *_overrides("transport.attributes", TransportSection),
        *_algorithms("transport.congestion_control", *CONGESTION_CONTROLS.values()),
        *_algorithms("transport.path_selection", PATH_SELECTIONS),
        *_algorithms("transport.scheduler", QP_SCHEDULERS),
        *_section("mapper", MapperSpec),
        *_section("trace", TraceSpec),
        *_union("traffic", Traffic),
        *_union("faults", Fault),
        *_union("faults.model", LossModel),
        *_union("expect", Expectation),
        *_section("variants", Variant),
    ]
    return "\n".join(parts) + "\n"


def _section(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield from _described(model)


def _union(title: str, union: Any) -> Iterator[str]:
    """Return one part per kind; common fields are repeated in each, so that a reader needs one part only."""
    yield f"\n## {title}"
    for model in _models(union):
        (kind,) = get_args(model.model_fields["kind"].annotation)
        yield f"\n### {title}: {kind}\n"
        yield from _described(model)


def _models(union: Any) -> list[type[BaseModel]]:
    return [model for mark in get_args(union) if isinstance(mark, OneKind) for model in mark.kinds]


class Described(NamedTuple):
    """Description of a field for readers."""

    name: str
    needed: bool
    value: str
    default: str
    meaning: str


def fields(model: type[BaseModel]) -> list[Described]:
    """Yield the fields of a model, without the one that only names its kind."""
    named = (
        (info.alias or name, info)
        for name, info in model.model_fields.items()
        if name != "kind" or kind_of(model) is None
    )
    return [_field(name, info) for name, info in named]


def _described(model: type[BaseModel]) -> Iterator[str]:
    yield " ".join((model.__doc__ or "").split())
    rows = [
        (f"{'**' * each.needed}`{each.name}`{'**' * each.needed}", each.value, each.default, each.meaning)
        for each in fields(model)
    ]
    if rows:
        yield "\n" + markdown(("Field", "Value", "Default", ""), rows)


def _overrides(title: str, model: type[BaseModel]) -> Iterator[str]:
    """Return names only: defaults follow from the fabric, and `mrclab plan` and node configs show them."""
    yield f"\n## {title}\n"
    names = [name for name in model.model_fields if name not in {"name", *SET_ELSEWHERE}]
    yield f"Any of {', '.join(f'`{name}`' for name in names)}; `topo/config/nodeconfig.py` says what each does."


def _algorithms(title: str, *registries: Registry) -> Iterator[str]:
    """Return one part per algorithm, with its settings."""
    yield f"\n## {title}"
    for registry in registries:
        for made in registry:
            yield f"\n### {title}: {made.name} ({registry.owner})\n"
            assert made.__doc__, f"{made.__name__} has no docstring in its compiled form: set MRCLAB_COMPILED=0"
            yield " ".join(made.__doc__.split())
            if made.settings:
                rows = [(f"`{name}`", each.type_name, each.meaning) for name, each in made.settings.items()]
                yield "\n" + markdown(("Setting", "Value", ""), rows)


def _field(name: str, info: FieldInfo) -> Described:
    needed = info.default is PydanticUndefined and info.default_factory is None
    default = "" if needed else _default(info)
    return Described(name, needed, _value(info.annotation, info.metadata), default, info.description or "")


def _default(info: FieldInfo) -> str:
    value = info.default
    if value is None or value == "" or isinstance(value, BaseModel) or value in ([], {}, ()):
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if value == ["all"]:
        return "all"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    """Describe the values of a field in a word or two."""
    for mark in metadata:
        if word := _marked(mark):
            return word
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(inner[0], inner[1:])
    if origin in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(_value(part) for part in inner if part is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{str(word).lower() if isinstance(word, bool) else word}`" for word in inner)
    if origin in {list, tuple}:
        return f"list of {_value(inner[0])}"
    return _simple(annotation)


def _marked(mark: Any) -> str:
    """Return the description of values in an annotation; empty if there is none."""
    if isinstance(mark, OneOf):
        return ", ".join(f"`{name}`" for name in mark.names)
    if isinstance(mark, Overrides):
        return "fields, see below"
    if isinstance(mark, FromFile):
        return "file"
    return _WORDS.get(getattr(getattr(mark, "func", None), "__name__", ""), "")


def _simple(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "fields, see below"
    return _PLAIN.get(annotation, "fields" if get_origin(annotation) is dict else "value")


def main() -> None:
    """Write the file."""
    FILE.write_text(build(), encoding="utf-8")


if __name__ == "__main__":
    main()
