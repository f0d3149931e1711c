"""A controller's operations by name: coroutines on the wire, completed at once in virtual time."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any

from pydantic import ConfigDict, ValidationError, validate_call

from mrclab.controller.core import ControllerCore
from mrclab.controller.errors import ControllerError, WatchError
from mrclab.controller.health.denylist import DenyError
from mrclab.controller.health.maintenance import MaintenanceError
from mrclab.rpc.errors import RpcError
from mrclab.topo.input import sentences
from mrclab.topo.model import UnknownName

Operation = Callable[..., Any]
_REFUSALS = (ValidationError, UnknownName, ControllerError)


def by_name(core: ControllerCore, waits: bool) -> dict[str, Operation]:
    """Return name → operation, with arguments' types checked and refusals as RpcError; coroutines where it `waits`."""
    methods = inspect.getmembers(core, inspect.ismethod)
    return {name: _operation(method, waits) for name, method in methods if not name.startswith("_")}


def completed(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never suspends; RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError(f"{work} waits, which is not possible in virtual time")


@functools.cache
def _validated(function: Operation) -> Operation:
    """Return the function that checks its arguments' types; made at the first call, as most are never called."""
    return validate_call(config=ConfigDict(strict=True))(function)


def _operation(method: MethodType, waits: bool) -> Operation:
    core, function = method.__self__, method.__func__

    @functools.wraps(method)
    async def operation(**arguments: Any) -> Any:
        try:
            result = _validated(function)(core, **arguments)
            return await result if inspect.isawaitable(result) else result
        except _REFUSALS as error:
            raise _refusal(method.__name__, error) from None

    @functools.wraps(method)
    def at_once(**arguments: Any) -> Any:
        return completed(operation(**arguments))

    return operation if waits else at_once


def _refusal(name: str, error: Exception) -> RpcError:
    """Return the answer of operation `name` to one of _REFUSALS."""
    if isinstance(error, ValidationError):
        return RpcError("EINVAL", f"operation {name}: {sentences.first(error)}")
    if isinstance(error, UnknownName):
        return RpcError("EINVAL", str(error))
    may_not = isinstance(error, (DenyError, MaintenanceError, WatchError))
    return RpcError("EPERM" if may_not else "EIO", str(error))
