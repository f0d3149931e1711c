"""Start background senders in a running fabric, and end them; `sender` is the process."""

from dataclasses import dataclass

from mrclab.topo.cables.background import NUMBER_AT, packet
from mrclab.topo.cables.helper import Helper
from mrclab.topo.linux.emulation import Emulation


@dataclass(frozen=True)
class SentFrames:
    """Frames that a sender handed to its NIC port, and those that it refused for lack of carrier."""

    sent: int = 0
    refused: int = 0


class FrameSender:
    """Background traffic until `clear`. Made by `send`."""

    def __init__(self, helper: Helper) -> None:
        self.name = helper.name  # of its process in the lab
        self.late = 0.0, 0.0  # seconds at most, and when that ended; known after `clear`
        self._helper = helper

    def clear(self) -> SentFrames:
        """End it; return its counts. One that was ended already returns zeros."""
        done = self._helper.finish()
        if done is None:
            return SentFrames()
        self.late = done["late"], done["at"]
        return SentFrames(done["sent"], done["refused"])


def send(
    lab: Emulation,
    source: str,
    destination: str,
    path: tuple[int, int],
    rate_pps: float,
    size: int | None = None,
    label: str = "",
) -> FrameSender:
    """Send packets of `size` bytes (None: full-size ones) by one path, (plane, uplink), from now on.

    `label` identifies its process.
    """
    fabric = lab.fabric
    port = fabric.host(source).port(path[0])
    frame = packet(fabric, source, destination, path, size or fabric.spec.path_mtu)
    argument = {
        "interface": port.interface,
        "frame": frame.hex(),
        "rate_pps": rate_pps,
        "number_at": NUMBER_AT,
    }
    name = f"background-{label or f'{source}-{destination}-{path[0]}-{path[1]}'}"
    return FrameSender(Helper.start(lab, source, "mrclab.topo.cables.sender", argument, name))
