"""Base class of all models of a scenario file."""

from pydantic import ConfigDict

from mrclab.lab.kinds import kind_of
from mrclab.topo.input.exacttypes import ExactTypes


class Strict(ExactTypes):
    """Immutable model; an unknown field is an error."""

    model_config = ConfigDict(
        defer_build=True,
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        populate_by_name=True,
        allow_inf_nan=False,
    )


class OfKind(Strict):
    """Model of one kind of a family, which its field `kind` names."""

    @property
    def kind_name(self) -> str:
        """The value of `kind`."""
        return kind_of(type(self)) or ""
