"""Operations of a host for lab and controller, other than verbs, and the dispatch of all.

Arguments and results are JSON. Every operation's arguments are checked against its signature; a bad one is named.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, ValidationError, validate_call

from mrclab.hosts.nic.interface import HostNic
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.rpc.errors import RpcError
from mrclab.topo.config.nodeconfig import loads
from mrclab.topo.input import sentences

if TYPE_CHECKING:
    from mrclab.hosts.agent.host import RunningHost

Result = dict[str, Any]
API_VERSION = 1


class HostOperations:
    """Methods without underscore are operations."""

    def __init__(self, host: RunningHost, nic: HostNic) -> None:
        self._host = host
        self._nic = nic

    def hello(self) -> Result:
        """Return the host's name and the state of its ports."""
        config = self._host.config
        ports = [{"port": port.number, "interface": port.config.name, "up": port.up} for port in self._nic.ports]
        return {
            "host": config.host.name,
            "address": config.host.address,
            "api": API_VERSION,
            "config_version": config.version,
            "now": self._nic.now,
            "ports": ports,
        }

    def update_config(self, config: dict[str, Any]) -> Result:
        """Apply a whole node config if it is newer; return the version in force."""
        return self._host.update(lambda: loads(json.dumps(config), "update_config"))

    def stats(self) -> Result:
        """Return a sample as of now."""
        return self._host.sampler.current()

    def samples(self, since: float = 0.0) -> Result:
        """Return the kept samples taken after a time."""
        return {"samples": self._host.sampler.since(since)}


def exact_fields(name: str, given: Mapping[str, int], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return all known fields of the mapping `given`, in their order; `...` in place of a default: it is required."""
    for key in given:
        if key not in known:
            raise RpcError("EINVAL", f"{name}.{key} is unknown; {name} holds {', '.join(known)}")
    found = {**known, **given}
    for key, value in found.items():
        if value is ...:
            raise RpcError("EINVAL", f"{name}.{key} is missing")
    return found


class CheckedOperations(Mapping[str, Callable[..., Any]]):
    """Operations of all parts by name, with arguments checked; each made when used: a process may have many hosts."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def __getitem__(self, name: str) -> Callable[..., Any]:
        for part in reversed(self._parts):
            function = _operations(part.__class__).get(name)
            if function is not None:
                return _checked(name, function, part)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for part in self._parts for name in _operations(part.__class__)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@functools.cache
def _operations(part: type) -> dict[str, Callable[..., Any]]:
    """Methods without underscore of a class; computed once for all hosts of a process."""
    return {name: found for name, found in inspect.getmembers(part, inspect.isfunction) if not name.startswith("_")}


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Signature of a method without self."""
    whole = inspect.signature(function)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


@functools.cache
def _validated(function: Callable[..., Any]) -> Callable[..., Any]:
    return validate_call(config=ConfigDict(strict=True))(function)


def _checked(name: str, function: Callable[..., Any], part: object) -> Callable[..., Any]:
    """Return a part's method that checks its arguments' types and raises refusals as RpcError."""
    validated = _validated(function)

    @functools.wraps(function)
    def operation(**arguments: Any) -> Any:
        try:
            return validated(part, **arguments)
        except ValidationError as error:
            raise RpcError("EINVAL", f"operation {name}: {sentences.first(error)}") from error
        except VerbsError as error:
            raise RpcError(error.code, str(error)) from error

    operation.__signature__ = _signature(function)  # type: ignore[attr-defined]
    return operation
