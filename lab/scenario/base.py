"""Base class of all models of a scenario file."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Immutable model; an unknown field is an error."""

    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        populate_by_name=True,
        allow_inf_nan=False,
    )
