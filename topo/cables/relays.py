"""Insert a relay process into a running cable, and remove it; `relay` is the process."""

from dataclasses import asdict

from mrclab.topo.cables.cablefaults import Direction
from mrclab.topo.cables.helper import Helper
from mrclab.topo.cables.impairment import Counts, Impairment
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.model import Link


class Relayed:
    """A cable whose frames take the detour through a relay, until `clear`. Made by `impair`."""

    def __init__(self, lab: Emulation, link: Link, direction: Direction, relay: Helper) -> None:
        self.link = link
        self.name = relay.name  # of its process in the lab
        self.late = 0.0, 0.0  # seconds at most, and when that ended; known after `clear`
        self._lab, self._direction, self._relay = lab, direction, relay

    @property
    def alive(self) -> bool:
        """True if the relay still runs; without it the cable carries nothing."""
        return self._relay.alive

    def clear(self) -> list[Counts]:
        """Send frames straight again, let those on the detour arrive, end the relay; returns its counts per direction.

        Frames that are sent straight may overtake the last delayed ones. A relay that was cleared gives nothing.
        """
        if self._relay.finished:
            return []
        self._lab.cables.use_detour(self.link, self._direction, use=False)
        done = self._relay.finish()
        self.late = done["late"], done["at"]
        return [Counts(**entry) for entry in done["counts"]]


def impair(
    lab: Emulation, link: Link | str, impairment: Impairment, *, direction: Direction = "both", seed: int = 0
) -> Relayed:
    """Delay, reorder, duplicate or lose frames of a cable from now on. One relay per cable and direction at a time.

    "up" is from the lower end of the cable to the upper; with "both" each direction draws on its own.
    """
    found = lab.fabric.link(link) if isinstance(link, str) else link
    detours = lab.cables.make_detour(found, direction)
    argument = {
        "seed": seed,
        "directions": [{"from": reads, "to": writes, "impairment": asdict(impairment)} for reads, writes in detours],
    }
    name = f"relay-{found.name.replace('/', '-')}-{direction}"
    relay = Helper.start(lab, None, "mrclab.topo.cables.relay", argument, name, lab.cables.descriptor)
    lab.cables.use_detour(found, direction, use=True)
    return Relayed(lab, found, direction, relay)
