"""Faults by population: a share of the cables, drawn from the seed, has a fault each."""

import math
import random
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from typing_extensions import override

from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault
from mrclab.lab.faults.composite import CompositeFault
from mrclab.lab.scenario.names import fabric_of
from mrclab.lab.scenario.triggers import Trigger
from mrclab.lab.scenario.units import Percent
from mrclab.topo.input import sentences
from mrclab.topo.model import Fabric

_CABLES = {"all": "cables", "nic": "NIC cables", "t0-t1": "T0–T1 cables", "t1-t2": "T1–T2 cables"}


@FAULTS.register
class Population(CompositeFault, LastingFault):
    """A share of the cables, drawn from the seed, has a fault of one kind, all at once."""

    kind: Literal["population"]
    share: Annotated[Percent, Field(ge=0, le=1)] | None = Field(default=None, description="of the cables, such as 1%")
    count: int | None = Field(default=None, ge=0, description="cables, in place of a share")
    of: Literal["all", "nic", "t0-t1", "t1-t2"] = Field(default="all", description="cables to draw from")
    fault: dict[str, Any] = Field(
        description="what each has: a fault of a cable without name, link and times, e.g. {kind: loss, rate: 0.1%}"
    )
    example: ClassVar = {"count": 2, "of": "nic", "fault": {"kind": "loss", "rate": 0.5}}

    @field_validator("fault")
    @classmethod
    def _of_a_cable(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if fabric := fabric_of(info):
            _check(given, fabric)
        return given

    @model_validator(mode="after")
    def _one_measure(self, info: ValidationInfo) -> "Population":
        if (self.share is None) == (self.count is None):
            raise ValueError("a population needs either a share (such as 1%) or a count of cables")
        if (fabric := fabric_of(info)) and not self._cables(fabric):
            raise ValueError(f"this fabric has no {_CABLES[self.of]}; name another tier in of")
        return self

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self._drawn(fabric)} of {len(self._cables(fabric))} {_CABLES[self.of]} have {self.fault['kind']}"

    @override
    def parts(self, fabric: Fabric, seed: int) -> list[FaultBase]:
        draw = random.Random(f"{seed}/{self.name}")
        places = sorted(draw.sample(range(len(self._cables(fabric))), self._drawn(fabric)))
        cables = self._cables(fabric)
        fields = [{**self.fault, "link": cables[at]} for at in places]
        return [self.part(each["kind"], fabric, number, **each) for number, each in enumerate(fields, 1)]

    def _cables(self, fabric: Fabric) -> list[str]:
        return [link.name for link in fabric.links if self.of in {"all", fabric.shape.tier_of(link.index)}]

    def _drawn(self, fabric: Fabric) -> int:
        cables = len(self._cables(fabric))
        if self.count is not None:
            return min(self.count, cables)
        assert self.share is not None
        return math.ceil(round(self.share * cables, 6))  # a share above 0 is one cable at least


def _check(given: dict[str, Any], fabric: Fabric) -> None:
    """Raise ValueError for what is not a fault of a cable without name, link and times."""
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in FAULTS or "link" not in FAULTS[kind].model_fields:
        cables = sorted(each for each in FAULTS.names if "link" in FAULTS[each].model_fields)
        raise ValueError(f"{kind!r} is not a fault of a cable; {sentences.nearest(str(kind), cables)}")
    if wrong := sorted({"name", "link", "at", "until"} & given.keys()):
        raise ValueError(f"{wrong[0]} is set by the population; leave it out")
    try:
        fields = {**given, "name": "one", "link": fabric.links[0].name, "at": Trigger()}
        FAULTS[kind].model_validate(fields, context={"fabric": fabric})
    except ValidationError as error:
        raise ValueError(sentences.first(error)) from None
