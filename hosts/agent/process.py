"""Operations of a host in a process of its own: identity, node config file, shutdown."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrclab.hosts.agent.host import RunningHost
from mrclab.topo.config.nodeconfig import load


class ProcessOperations:
    """Methods without underscore are operations."""

    def __init__(self, host: RunningHost, config_path: Path, stop: Callable[[], None]) -> None:
        self._host = host
        self._hello = host.operations["hello"]
        self._config_path = config_path
        self._stop = stop

    def hello(self) -> dict[str, Any]:
        """Return the host's name, the state of its ports, and `pid`, which changes with every restart."""
        return {**self._hello(), "pid": os.getpid()}

    def configure(self, path: str | None = None) -> dict[str, int]:
        """Read the node config file again, or another one, and apply it if it is newer."""
        return self._host.update(lambda: load(Path(path) if path else self._config_path))

    def shutdown(self) -> None:
        """End the agent after this response."""
        self._stop()
