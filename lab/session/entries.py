"""One fault or traffic as it is written at a prompt or in a program: its kind, and its fields."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mrclab.lab.kinds import Kinds
from mrclab.topo.input.sentences import nearest
from mrclab.topo.model import Fabric
from mrclab.topo.spec import explain

M = TypeVar("M", bound=BaseModel)


def entry(kinds: Kinds[M], kind: str, fields: Mapping[str, Any], fabric: Fabric) -> M:
    """Return the model of this kind with these fields; ValueError with one sentence per mistake."""
    if kind not in kinds:
        raise ValueError(f"no kind of {kinds.family} is called {kind!r}; {nearest(kind, list(kinds.names))}")
    try:
        return kinds[kind].model_validate({**fields, "kind": kind}, context={"fabric": fabric})
    except ValidationError as error:
        raise ValueError("; ".join(explain(error, kinds[kind], kind))) from None
