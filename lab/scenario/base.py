"""The base of everything that a scenario file may hold."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Immutable; an unknown field is a mistake."""

    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        populate_by_name=True,
        allow_inf_nan=False,
    )
