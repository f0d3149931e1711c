"""Puts a relay process into a running cable and takes it out again; what the relay does is in `relay`."""

import json
import subprocess
import sys
from dataclasses import asdict

from mrclab.topo.cables.cables import Direction
from mrclab.topo.cables.impairment import Counts, Impairment
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import processes
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.model import Link


class Relayed:
    """A cable whose frames take the detour through a relay, until `heal`. Made by `impair`."""

    def __init__(
        self, lab: Emulation, link: Link, direction: Direction, process: "subprocess.Popen[bytes]", name: str
    ) -> None:
        self.link = link
        self.name = name  # of its process in the lab
        self._lab, self._direction, self._process = lab, direction, process

    @property
    def alive(self) -> bool:
        """Whether the relay still runs; without it the cable carries nothing."""
        return self._process.poll() is None

    def heal(self) -> list[Counts]:
        """Send frames straight again, let those on the detour arrive, end the relay; returns its counts per direction.

        Frames that are sent straight may overtake the last delayed ones. A relay that was healed already gives nothing.
        """
        if self._process.stdout is None or self._process.stdout.closed:
            return []
        self._lab.cables.use_detour(self.link, self._direction, use=False)
        self._process.terminate()
        output = self._process.stdout.read()
        self._process.stdout.close()
        if self._process.wait():
            raise EmulationError(f"the relay on {self.link.name} failed; see {self._lab.run_dir / 'log'}")
        return [Counts(**entry) for entry in json.loads(output)]


def impair(
    lab: Emulation, link: Link | str, impairment: Impairment, *, direction: Direction = "both", seed: int = 0
) -> Relayed:
    """Delay, reorder, duplicate or lose frames of a cable from now on. One relay per cable and direction at a time.

    "up" is from the lower end of the cable to the upper; with "both" each direction draws on its own.
    """
    found = lab.fabric.link(link) if isinstance(link, str) else link
    detours = lab.cables.make_detour(found, direction)
    wanted = {
        "seed": seed,
        "directions": [{"from": reads, "to": writes, "impairment": asdict(impairment)} for reads, writes in detours],
    }
    name = f"relay-{found.name.replace('/', '-')}-{direction}"
    argv = [sys.executable, "-m", "mrclab.topo.cables.relay", json.dumps(wanted)]
    log = (lab.run_dir / "log" / f"{name}.log").open("ab")
    with log:
        process = lab.popen(None, argv, log=name, namespace=lab.cables.descriptor, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        process.wait()
        raise EmulationError(f"the relay on {found.name} did not start; see {lab.run_dir / 'log' / name}.log")
    processes.to_real_time(process.pid)
    lab.cables.use_detour(found, direction, use=True)
    return Relayed(lab, found, direction, process, name)
