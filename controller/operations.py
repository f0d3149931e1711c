"""A controller's operations by name: coroutines on the wire, plain functions in virtual time."""

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
_ERRORS = (ValidationError, UnknownName, ControllerError)


def by_name(core: ControllerCore, asynchronous: bool) -> dict[str, Operation]:
    """Return name → operation, a coroutine if `asynchronous`: it checks its arguments' types and raises RpcError."""
    methods = inspect.getmembers(core, inspect.ismethod)
    return {name: _operation(method, asynchronous) for name, method in methods if not name.startswith("_")}


def run_to_end(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never suspends; RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError(f"{work} suspends, which is not possible in virtual time")


@functools.cache
def _validated(function: Operation) -> Operation:
    """Return the function that checks its arguments' types; made at the first call, as most are never called."""
    return validate_call(config=ConfigDict(strict=True))(function)


def _operation(method: MethodType, asynchronous: bool) -> Operation:
    core, function = method.__self__, method.__func__

    @functools.wraps(method)
    async def operation(**arguments: Any) -> Any:
        try:
            result = _validated(function)(core, **arguments)
            return await result if inspect.isawaitable(result) else result
        except _ERRORS as error:
            raise _rpc_error(method.__name__, error) from None

    @functools.wraps(method)
    def synchronous(**arguments: Any) -> Any:
        return run_to_end(operation(**arguments))

    return operation if asynchronous else synchronous


def _rpc_error(name: str, error: Exception) -> RpcError:
    """Return one of `_ERRORS` in operation `name` as the error of its response."""
    if isinstance(error, ValidationError):
        return RpcError("EINVAL", f"operation {name}: {sentences.first(error)}")
    if isinstance(error, UnknownName):
        return RpcError("EINVAL", str(error))
    forbidden = isinstance(error, (DenyError, MaintenanceError, WatchError))
    return RpcError("EPERM" if forbidden else "EIO", str(error))
