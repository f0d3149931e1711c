"""Puts a sender of other traffic into a running fabric and takes it out again; what it does is in `sender`."""

import json
import subprocess
import sys
from dataclasses import dataclass

from mrclab.topo.cables.background import NUMBER_AT, packet
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import processes
from mrclab.topo.linux.emulation import Emulation


@dataclass(frozen=True)
class Sent:
    """Frames that a sender handed to its NIC port, and those that it refused for lack of carrier."""

    sent: int = 0
    refused: int = 0


class Sender:
    """Traffic that goes on until `heal`. Made by `send`."""

    def __init__(self, lab: Emulation, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name = name  # of its process in the lab
        self._lab, self._process = lab, process

    def heal(self) -> Sent:
        """End it; returns what it did. One that was ended already did nothing."""
        if self._process.stdout is None or self._process.stdout.closed:
            return Sent()
        self._process.terminate()
        output = self._process.stdout.read()
        self._process.stdout.close()
        if self._process.wait():
            raise EmulationError(f"{self.name} failed; see {self._lab.run_dir / 'log' / self.name}.log")
        return Sent(**json.loads(output))


def send(
    lab: Emulation,
    source: str,
    destination: str,
    path: tuple[int, int],
    rate_pps: float,
    size: int | None = None,
    label: str = "",
) -> Sender:
    """Send packets of `size` bytes (None: full-size ones) by one path, (plane, uplink), from now on.

    `label` tells its process from others.
    """
    fabric = lab.fabric
    port = fabric.host(source).port(path[0])
    frame = packet(fabric, source, destination, path, size or fabric.spec.path_mtu)
    wanted = {
        "interface": port.interface,
        "frame": frame.hex(),
        "rate_pps": rate_pps,
        "number_at": NUMBER_AT,
    }
    name = f"background-{label or f'{source}-{destination}-{path[0]}-{path[1]}'}"
    argv = [sys.executable, "-m", "mrclab.topo.cables.sender", json.dumps(wanted)]
    with (lab.run_dir / "log" / f"{name}.log").open("ab") as log:
        process = lab.popen(source, argv, log=name, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.wait()
        raise EmulationError(f"{name} did not start; see {lab.run_dir / 'log' / name}.log")
    processes.to_real_time(process.pid)
    return Sender(lab, name, process)
