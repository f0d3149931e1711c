"""Operations of a controller that are the same in either world, and how a class of operations is served."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from mrclab.controller.arguments import REFUSALS, checked, refusal
from mrclab.controller.health.elements import Element, element
from mrclab.controller.health.mapper import Clustermapper
from mrclab.rpc.errors import RpcError
from mrclab.topo.model import Fabric

Result = dict[str, Any]
Operation = Callable[..., Any]


class CommonOperations:
    """Methods without underscore are operations; what they return travels as JSON.

    `mapper` returns the Clustermapper of now, None where it is off.
    """

    def __init__(self, fabric: Fabric, mapper: Callable[[], Clustermapper | None]) -> None:
        self._fabric = fabric
        self._current_mapper = mapper

    def map(self) -> Result:
        """Health of every link by Clustermapper's probes, and what is at fault."""
        return self._mapper().map()

    def forget(self) -> Result:
        """Have Clustermapper forget what it has seen so far: after a repair, or between two experiments."""
        self._mapper().begin()
        return {}

    def _mapper(self) -> Clustermapper:
        mapper = self._current_mapper()
        if mapper is None:
            raise RpcError(
                "ENOTSUP", "Clustermapper is off; give the scenario a mapper section, or write mrclab up --mapper"
            )
        return mapper

    def _element(self, text: str) -> Element:
        return element(self._fabric, text)


def by_name(operations: CommonOperations, waits: bool) -> dict[str, Operation]:
    """Return name → operation, with arguments' types checked and refusals as RpcError; coroutines where it `waits`."""
    made = _awaited if waits else _called
    methods = inspect.getmembers(operations, inspect.ismethod)
    return {name: made(name, method) for name, method in methods if not name.startswith("_")}


def _called(name: str, method: Operation) -> Operation:
    validated = checked(method)

    @functools.wraps(method)
    def operation(**arguments: Any) -> Any:
        try:
            return validated(**arguments)
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
