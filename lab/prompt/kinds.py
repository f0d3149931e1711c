"""The kinds of faults and of traffic that can be typed, with their models."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from mrclab.lab.faults.models import FAULTS
from mrclab.lab.traffic.models import TRAFFIC

UNTYPED = frozenset({"kind", "at", "until", "start"})
"""Fields that a scenario has and a prompt does not: a typed command runs at once."""

KINDS: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "fault": {kind: FAULTS[kind] for kind in FAULTS.names},
    "traffic": {kind: TRAFFIC[kind] for kind in TRAFFIC.names},
}


def fields(model: Any) -> list[str]:
    """Names of a kind's fields, as they are typed."""
    named = (field.alias or name for name, field in model.model_fields.items())
    return sorted(each for each in named if each not in UNTYPED)
