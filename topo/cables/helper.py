"""Helper processes on cables: relays, which delay or lose frames, and background senders.

Each prints `ready`, works until SIGTERM, and prints its counts and lateness as JSON; `relay` and `sender` are the
processes.
"""

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from typing_extensions import Self

from mrclab.topo.cables.background import NUMBER_AT, packet
from mrclab.topo.cables.cablefaults import Direction
from mrclab.topo.cables.impairment import Counts, Impairment
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.processes import ending, last_line
from mrclab.topo.model import Link
from mrclab.topo.process import realtime

START_TIMEOUT = 20.0  # seconds for a helper to load its program; it takes some tenths
END_TIMEOUT = 10.0  # seconds for its last output
_LOOK_AGAIN = 0.1  # seconds
_READY = b"ready\n"


class Helper:
    """A helper that runs, until `finish`. Made by `start`."""

    ends_within = 0.0  # seconds of work that it may have left when it is to end

    def __init__(self, lab: Emulation, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name = name  # of its process in the lab
        self.late = 0.0, 0.0  # seconds at most, and when that ended; known after `finish`
        self._lab, self._process = lab, process

    @classmethod
    def start(
        cls, lab: Emulation, node: str | None, module: str, argument: object, name: str, namespace: int | None = None
    ) -> Self:
        """Run `module` in a node's namespaces (or in `namespace`), with `argument` as its argument; returns when it is
        ready. EmulationError where it ends, or is stopped.
        """
        argv = [sys.executable, "-m", module, json.dumps(argument)]
        with (lab.run_dir / "log" / f"{name}.log").open("ab") as log:
            process = lab.popen(node, argv, log=name, namespace=namespace, stdout=subprocess.PIPE, stderr=log)
        helper = cls(lab, name, process)
        if helper._output(START_TIMEOUT, "get ready", upto=_READY) != _READY:
            process.kill()
            process.wait()
            raise EmulationError(f"{name} did not start; {helper._last_output}")
        realtime.to_real_time(process.pid)
        return helper

    @property
    def alive(self) -> bool:
        """True if it still runs."""
        return self._process.poll() is None

    @property
    def finished(self) -> bool:
        """True if `finish` was called."""
        return self._process.stdout is None or self._process.stdout.closed

    def finish(self) -> Any:
        """End it; return its counts, None if it was ended already."""
        if self.finished:
            return None
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # a stopped process would not receive SIGTERM
        output = self._output(END_TIMEOUT + self.ends_within, "end")
        assert self._process.stdout is not None
        self._process.stdout.close()
        if status := self._process.wait():
            raise EmulationError(f"{self.name} {ending(status)}; {self._last_output}")
        done = json.loads(output)
        self.late = done["late"], done["at"]
        return done

    @property
    def _last_output(self) -> str:
        """Last output of the process, for the message: its log may be removed."""
        last = last_line(self._lab.run_dir / "log" / f"{self.name}.log")
        return f"its last output was: {last} (its log is log/{self.name}.log)"

    def _output(self, seconds: float, what: str, upto: bytes = b"") -> bytes:
        """Return its output up to `upto`, or until it closes its output; one that hangs is killed."""
        assert self._process.stdout is not None
        terminal, output = self._process.stdout.fileno(), b""
        adaptive = AdaptiveTimeout(seconds, self._lab.slowness, self._process.pid)
        poll = select.poll()
        poll.register(terminal, select.POLLIN)
        while not (upto and output.endswith(upto)):
            if poll.poll(_LOOK_AGAIN * 1000):
                data = os.read(terminal, 65536)
                if not data:
                    break
                output += data
            elif adaptive.over:
                self._process.kill()
                self._process.wait()
                self._process.stdout.close()
                raise adaptive.error(self.name, f"{what}; {self._last_output}")
        return output


@dataclass(frozen=True)
class SentFrames:
    """Frames that a sender handed to its NIC port, and those that it refused for lack of carrier."""

    sent: int = 0
    refused: int = 0


class FrameSender(Helper):
    """Background traffic until `clear`. Made by `send`."""

    def clear(self) -> SentFrames:
        """End it; return its counts. One that was ended already returns zeros."""
        done = self.finish()
        return SentFrames(done["sent"], done["refused"]) if done else SentFrames()


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
    return FrameSender.start(lab, source, "mrclab.topo.cables.sender", argument, name)


class Relayed(Helper):
    """Relay of a cable whose frames take the detour through it, until `clear`. Made by `impair`.

    The cable carries nothing while the relay is not `alive`.
    """

    link: Link
    direction: Direction

    def clear(self) -> list[Counts]:
        """Send frames straight again, let those on the detour arrive, end the relay; returns its counts per direction.

        Frames that are sent straight may overtake the last delayed ones. A relay that was cleared gives nothing.
        """
        if self.finished:
            return []
        self._lab.cables.use_detour(self.link, self.direction, use=False)
        return [Counts(**entry) for entry in self.finish()["counts"]]


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
    relay = Relayed.start(lab, None, "mrclab.topo.cables.relay", argument, name, lab.cables.descriptor)
    relay.link, relay.direction = found, direction
    relay.ends_within = impairment.delay + impairment.jitter
    try:
        lab.cables.use_detour(found, direction, use=True)
    except BaseException:
        relay.finish()
        raise
    return relay
