"""One fault as it is written at a prompt or in a test: its kind, and its fields."""

from typing import Any, Protocol

from pydantic import ValidationError

from mrclab.lab.faults.base import FaultBase
from mrclab.lab.faults.models import FAULTS
from mrclab.topo.model import Fabric
from mrclab.topo.sentences import nearest
from mrclab.topo.spec import explain


class HasFabric(Protocol):
    """Anything with a fabric."""

    @property
    def fabric(self) -> Fabric:
        """The fabric."""


def parse(kind: str, fields: dict[str, Any], place: HasFabric) -> FaultBase:
    """A fault of this kind; ValueError with one sentence per mistake."""
    if kind not in FAULTS:
        raise ValueError(f"no kind of fault is called {kind!r}; {nearest(kind, list(FAULTS.names))}")
    try:
        entry = {"at": 0, **fields, "kind": kind}
        return FAULTS[kind].model_validate(entry, context={"fabric": place.fabric})
    except ValidationError as error:
        raise ValueError("; ".join(explain(error, FAULTS[kind], kind))) from None
