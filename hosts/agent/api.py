"""The agent's operations: what the lab and the controller ask of a host beside the verbs, and how all are served.

Arguments and results are JSON. Every operation's arguments are checked against its signature; a bad one is named.
"""

import functools
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError, validate_call

from mrclab.hosts.agent.ctl import CtlOperations
from mrclab.hosts.agent.sampling import Sampler
from mrclab.hosts.agent.verbs import VerbOperations
from mrclab.hosts.memory.regions import STEP_INTERVAL_S
from mrclab.hosts.mrc.endpoint import Endpoint as MrcEndpoint
from mrclab.hosts.nic.nic import Nic
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.transports import Endpoint
from mrclab.hosts.workloads.api import WorkloadOperations
from mrclab.rpc.errors import RpcError
from mrclab.topo.nodeconfig import NodeConfig, NodeConfigError, load, loads

Result = dict[str, Any]
Record = Callable[[dict[str, Any]], Any]
API_VERSION = 1


class HostOperations:
    """Methods without underscore are operations. `use_config` puts a newer node config into force."""

    def __init__(
        self,
        config: NodeConfig,
        config_path: Path,
        nic: Nic,
        sampler: Sampler,
        use_config: Callable[[NodeConfig], None],
    ) -> None:
        self._config = config
        self._config_path = config_path
        self._nic = nic
        self._sampler = sampler
        self._use_config = use_config

    def hello(self) -> Result:
        """Say who serves here and how its ports are; `pid` changes with every restart."""
        host = self._config.host
        ports = [{"port": port.number, "interface": port.config.name, "up": port.up} for port in self._nic.ports]
        return {
            "host": host.name,
            "pid": os.getpid(),
            "address": host.address,
            "api": API_VERSION,
            "config_version": self._config.version,
            "now": self._nic.now,
            "ports": ports,
        }

    def configure(self, path: str | None = None) -> Result:
        """Read the node config file again, or another one, and use it if it is newer."""
        return self._update(lambda: load(Path(path) if path else self._config_path))

    def update_config(self, config: dict[str, Any]) -> Result:
        """Use a whole node config from now on if it is newer; returns the version in force."""
        return self._update(lambda: loads(json.dumps(config), "update_config"))

    def stats(self) -> Result:
        """Return what a sample would say now."""
        return self._sampler.current()

    def samples(self, since: float = 0.0) -> Result:
        """Return the kept samples taken after a monotonic time."""
        return {"samples": self._sampler.since(since)}

    def shutdown(self) -> None:
        """End the agent after this answer."""
        self._nic.stop()

    def _directory(self) -> dict[str, str]:
        return self._config.directory

    def _update(self, read: Callable[[], NodeConfig]) -> Result:
        try:
            config = read()
            if config.version > self._config.version:
                self._use_config(config)
                self._config = config
        except (NodeConfigError, ValueError) as error:
            raise RpcError("EINVAL", str(error)) from error
        return {"version": self._config.version}


def operations(
    host: HostOperations, endpoint: Endpoint, nic: Nic, tell: Record, record: Record
) -> dict[str, Callable[..., Any]]:
    """Return all operations of an agent by name, for an rpc server.

    `record` writes a record into the history and tells listeners of it, `tell` only tells listeners.
    """
    in_background = functools.partial(nic.until_done, STEP_INTERVAL_S)
    verbs = VerbOperations(endpoint, host._directory, in_background)  # noqa: SLF001 - underscored: it is no operation
    workloads = WorkloadOperations(endpoint, nic.soon, nic.until_done, host._directory, record, tell)  # noqa: SLF001
    parts: list[object] = [host, verbs, workloads]
    if isinstance(endpoint, MrcEndpoint):
        parts.append(CtlOperations(endpoint, verbs._address, record))  # noqa: SLF001
    return {
        name: _checked(name, method, endpoint, nic)
        for part in parts
        for name, method in inspect.getmembers(part, inspect.ismethod)
        if not name.startswith("_")
    }


def _checked(name: str, method: Callable[..., Any], endpoint: Endpoint, nic: Nic) -> Callable[..., Any]:
    """Return a method with its arguments' types checked and refusals of the transport turned into answers."""
    validated = validate_call(config=ConfigDict(strict=True))(method)

    @functools.wraps(method)
    def operation(**arguments: Any) -> Any:
        endpoint.now = nic.now
        try:
            return validated(**arguments)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise RpcError("EINVAL", f"operation {name}: {field}: {first['msg']}") from error
        except VerbsError as error:
            raise RpcError(error.code, str(error)) from error

    return operation
