"""Client of the socket at which a lab's prompt takes commands from other terminals."""

import contextlib
import math
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError, Stopped
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError, RpcStopped, RpcUnavailable
from mrclab.rpc.peers import stopped_text

SOCKET = "lab.sock"
NO_LAB = (
    "no lab is running; start one in another terminal: `mrclab up --world sim`, or `sudo mrclab up` for real frames"
)


def ask(run_dir: Path, operation: str, refused: type[LabError] = LabError, /, **arguments: Any) -> dict[str, Any]:
    """Send a request to the lab's process. `refused` with its message; LabError where no lab runs."""
    try:
        with contextlib.closing(Client(run_dir / SOCKET, math.inf)) as client:
            return client.call(operation, **arguments)
    except RpcStopped as error:
        raise Stopped(f"the prompt of the lab {stopped_text(error.pid)}") from None
    except RpcUnavailable:
        raise LabError(NO_LAB) from None
    except RpcError as error:
        raise refused(error.message) from None
