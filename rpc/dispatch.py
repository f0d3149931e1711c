"""Dispatch of requests to operations by name, and the lines of their responses."""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from mrclab.rpc.errors import FramingError, RpcError
from mrclab.rpc.framing import encode

log = logging.getLogger(__name__)

Operation = Callable[..., Any]
"""Takes the request's arguments by keyword; returns a dict (or None for {}), or an awaitable of one for asyncio."""

_SHOWN = 60  # characters of an operation's name that an error repeats


class Operations:
    """The operations of one server by name."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self._operations = dict(operations)
        self._signatures = {name: inspect.signature(operation) for name, operation in operations.items()}

    def invoke(self, request: Mapping[str, Any]) -> Any:
        """Call the operation of a request and return its result; RpcError for a bad request."""
        arguments = {key: value for key, value in request.items() if key not in {"id", "op"}}
        name = request.get("op")
        operation = self._operations.get(name) if isinstance(name, str) else None
        if operation is None:
            known = ", ".join(sorted(self._operations))
            shown = repr(name) if len(repr(name)) <= _SHOWN else f"{repr(name)[:_SHOWN]}…"
            raise RpcError("ENOSYS", f"no operation {shown}; there are: {known}")
        try:
            self._signatures[str(name)].bind(**arguments)
        except TypeError as error:
            raise RpcError("EINVAL", f"operation {name}: {error}") from error
        return operation(**arguments)


class Subscription:
    """Subscription of a client: all events, or those of some kinds."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        """Read a subscribe request; raise RpcError when its `kinds` is not a list of names."""
        extra = sorted(set(request) - {"id", "op", "kinds"})
        kinds = request.get("kinds")
        if extra:
            raise RpcError("EINVAL", f"subscribe takes kinds, not {extra[0]}")
        if kinds is not None and not (isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds)):
            raise RpcError("EINVAL", f"subscribe: kinds must be a list of names, not {kinds!r}")
        self._kinds = None if kinds is None else frozenset(kinds)

    def wants(self, event: Mapping[str, Any]) -> bool:
        """Return True if this event goes to the client."""
        return self._kinds is None or event.get("kind") in self._kinds


def response(request: Mapping[str, Any], result: Any) -> bytes:
    """Return the line of a successful response."""
    try:
        return encode({"id": request.get("id"), "ok": {} if result is None else result})
    except FramingError as error:
        return error_response(request, error)


def error_response(request: Mapping[str, Any], error: BaseException) -> bytes:
    """Return the line of an error response; anything but RpcError is logged with its traceback."""
    if not isinstance(error, RpcError):
        log.error("operation %s failed", request.get("op"), exc_info=error)
        error = RpcError("EIO", f"operation {request.get('op')}: {type(error).__name__}: {error}")
    described = {"code": error.code, "message": error.message}
    try:
        return encode({"id": request.get("id"), "error": described})
    except FramingError:  # an id that JSON read and cannot write, as 1e999
        return encode({"id": None, "error": described})
