"""Operations of the controller: arguments and refusals, the same in either world."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, validate_call

from mrclab.controller.errors import ControllerError
from mrclab.controller.health.checks import MaintenanceError
from mrclab.controller.health.denylist import DenyError
from mrclab.controller.provisioning.watchedevs import WatchError
from mrclab.rpc.errors import RpcError
from mrclab.topo.input import sentences
from mrclab.topo.model import UnknownName

Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
EvNumber = Annotated[int, Field(ge=0, le=0xFFFF_FFFF)]

DEFAULT_TIMEOUT = 30.0  # seconds
OPERATOR = "operator"
"""Source of an operator's denials."""

REFUSALS = (ValidationError, UnknownName, ControllerError)
"""Errors with which an operation refuses."""


def checked(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with its arguments' types checked; ValidationError where they are wrong."""
    return validate_call(config=ConfigDict(strict=True))(method)


def refusal(name: str, error: Exception) -> RpcError:
    """The answer of operation `name` to one of REFUSALS."""
    if isinstance(error, ValidationError):
        return RpcError("EINVAL", f"operation {name}: {sentences.first(error)}")
    if isinstance(error, UnknownName):
        return RpcError("EINVAL", str(error))
    may_not = isinstance(error, (DenyError, MaintenanceError, WatchError))
    return RpcError("EPERM" if may_not else "EIO", str(error))
