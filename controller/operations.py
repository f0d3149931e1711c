"""A controller's operations by name: coroutines on the wire, completed at once in virtual time."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from mrclab.controller.arguments import REFUSALS, checked, refusal
from mrclab.controller.core import ControllerCore

Operation = Callable[..., Any]


def by_name(core: ControllerCore, waits: bool) -> dict[str, Operation]:
    """Return name → operation, with arguments' types checked and refusals as RpcError; coroutines where it `waits`."""
    made = _awaited if waits else _called
    methods = inspect.getmembers(core, inspect.ismethod)
    return {name: made(name, method) for name, method in methods if not name.startswith("_")}


def completed(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never suspends; RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError(f"{work} waits, which is not possible in virtual time")


def _called(name: str, method: Operation) -> Operation:
    validated = checked(method)

    @functools.wraps(method)
    def operation(**arguments: Any) -> Any:
        try:
            result = validated(**arguments)
            return completed(result) if inspect.iscoroutine(result) else result
        except REFUSALS as error:
            raise refusal(name, error) from None

    return operation


def _awaited(name: str, method: Operation) -> Operation:
    validated = checked(method)

    @functools.wraps(method)
    async def operation(**arguments: Any) -> Any:
        try:
            result = validated(**arguments)
            return await result if inspect.isawaitable(result) else result
        except REFUSALS as error:
            raise refusal(name, error) from None

    return operation
