"""Transport of a scenario: that of `topo.config.transport`, the number of QPs, and every override checked.

Overrides are fields of the node config's sections; an unknown one is reported with the nearest, on its own line.
"""

import functools
from typing import Annotated, Any, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationInfo,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from mrclab.topo.config.nodeconfig import EvProfileConfig, TransportSection
from mrclab.topo.config.transport import SECTION_FIELDS, SETTINGS, TransportSpec
from mrclab.topo.input.exacttypes import others_as_text
from mrclab.topo.input.quantities import parse_duration

MAX_QPS = 64  # of one flow
SET_ELSEWHERE = frozenset({*SECTION_FIELDS, "ev_profile", "trim_threshold", "drop_threshold"})
"""Fields of the transport section that the fabric or other fields of a scenario determine."""


class Overrides:
    """Annotation of a dict whose keys and values are a model's fields, all optional.

    What checks a value is built when there is one: it takes long, and most scenarios override nothing.
    """

    def __init__(self, model: type[BaseModel], without: frozenset[str] = frozenset(), **more: Any) -> None:
        self.model = model
        self._without = without
        self._more = more

    @property
    def names(self) -> list[str]:
        """Return the valid keys."""
        return [*(name for name in self.model.model_fields if name not in self._without), *self._more]

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._adapter.core_schema)

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        return self._adapter.validate_python(value, context=info.context)

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        fields = {name: info for name, info in self.model.model_fields.items() if name not in self._without}
        types = {name: _type(name, info) for name, info in fields.items()} | self._more
        made = cast(Any, TypedDict)(f"{self.model.__name__}Overrides", types, total=False)
        made.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        checked: Any = Annotated[made, BeforeValidator(functools.partial(others_as_text, self.model))]
        return TypeAdapter(checked)


def _type(name: str, info: FieldInfo) -> Any:
    """Return a field's type with its bounds; seconds may be written as durations."""
    checks = list(info.metadata)
    if info.annotation is float and not name.endswith("_rtts"):
        checks.insert(0, BeforeValidator(parse_duration))
    described = Field(description=info.description) if info.description else None
    whole = (info.annotation, *checks, *([described] if described else []))
    return Annotated[whole] if len(whole) > 1 else info.annotation


class ScenarioTransport(TransportSpec):
    """`transport:` of a scenario, or of the hosts of one workload."""

    qps: int = Field(default=1, ge=1, le=MAX_QPS, description="QPs of each flow, used in turn")
    ev_profile: Annotated[dict[str, Any], Overrides(EvProfileConfig, frozenset({"name"}))] = Field(
        default={}, description="MRC: what differs from the default EV profile"
    )
    attributes: Annotated[dict[str, Any], Overrides(TransportSection, SET_ELSEWHERE)] = Field(
        default={}, description="what differs from the transport's defaults"
    )


QpAttributes = Annotated[
    dict[str, Any], Overrides(TransportSection, frozenset({"kind", *SETTINGS}), port=int, udp_sport=int)
]  # of the QPs of one workload
