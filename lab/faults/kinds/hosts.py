"""Faults of hosts: an agent that crashes, programs that are killed, and background traffic that no QP sent."""

import signal
import subprocess
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, model_validator
from typing_extensions import override

from mrclab.lab.faults.action import Counters, FaultAction, Injection
from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault
from mrclab.lab.faults.families import KillProcess
from mrclab.lab.faults.probe import FaultProbe
from mrclab.lab.scenario.names import HostName, PlaneNumber, fabric_of
from mrclab.lab.scenario.units import Percent
from mrclab.topo.linux.processes import HOST_VARIABLE
from mrclab.topo.model import Fabric

_SLOWEST = 0.001  # packets of background traffic per second


@FAULTS.register
class AgentCrash(LastingFault):
    """A host's agent is killed, and its QPs with it. At its end: started again, without them."""

    kind: Literal["agent_crash"]
    host: HostName
    example: ClassVar = {"host": "h2"}
    action_class: ClassVar = KillProcess
    phrase: ClassVar = "the agent of {0.host} crashes"
    killed: ClassVar = ("{0.host}",)
    claimed: ClassVar = ("the agent of {0.host}",)

    @override
    def self_test(self, probe: FaultProbe) -> None:
        probe.inject()
        probe.expect(not probe.is_alive("h2"), "a killed agent is alive")
        probe.clear()
        probe.expect(probe.call("h2", "hello")["pid"] == probe.processes()["h2"], "another agent answers")


class KillPrograms(FaultAction["ProgramKill"]):
    """Kill the programs of a host, once."""

    _killed = 0

    @override
    def inject(self) -> None:
        self._killed = self.context.injector.kill_programs(self.fault.host)
        self.finished = True

    @override
    def clear(self) -> Counters:
        """Return how many processes were killed."""
        return {"killed": self._killed}


@FAULTS.register
class ProgramKill(FaultBase):
    """The programs on a host are killed, as by the kernel when memory is short; its agent and NIC go on."""

    kind: Literal["program_kill"]
    host: HostName
    worlds: ClassVar = frozenset({"wire"})  # programs run on the wire alone
    example: ClassVar = {"host": "h2"}
    action_class: ClassVar = KillPrograms
    phrase: ClassVar = "the programs on {0.host} are killed"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        agent = Path(f"/proc/{probe.processes()['h2']}/environ").read_bytes()
        marks = dict(word.split("=", 1) for word in agent.decode(errors="replace").split("\0") if "=" in word)
        here, there = (subprocess.Popen(["sleep", "60"], env={**marks, HOST_VARIABLE: host}) for host in ("h2", "h1"))
        try:
            probe.inject()
            probe.expect(here.wait(10) == -signal.SIGKILL, "a program on the host goes on")
            probe.expect(there.poll() is None, "a program on another host ended")
            probe.expect(probe.is_alive("h2"), "the agent ended")
            probe.clear()
            probe.expect(probe.counters["killed"] == 1, f"it counted {probe.counters}")
        finally:
            for program in (here, there):
                program.kill()
                program.wait()


class SendBackground(FaultAction["Background"]):
    """Send along one path."""

    _sending: Injection | None = None

    @override
    def inject(self) -> None:
        fault, fabric = self.fault, self.context.fabric
        rate, path = fault.packets_per_second(fabric), fault.path(fabric)
        size = fault.size or fabric.spec.path_mtu
        self._sending = self.context.injector.background(fault.source, fault.destination, path, rate, size, fault.name)

    @override
    def clear(self) -> Counters:
        """Returns packets sent, and those that found no carrier."""
        if self._sending is None:
            return {}
        sent, refused = self._sending.clear()
        return {"sent": sent, "refused": refused}


@FAULTS.register
class Background(LastingFault):
    """Full-size packets that no QP sent, along one path at a steady rate; the receiver counts and drops them."""

    kind: Literal["background"]
    source: HostName = Field(alias="from")
    destination: HostName = Field(alias="to")
    plane: PlaneNumber = 1
    uplink: int | None = Field(default=None, ge=0, description="of the sender's T0; left out inside a T0 group")
    rate_pps: float | None = Field(default=None, gt=0, le=100_000, description="packets per second")
    load: Percent | None = Field(default=None, gt=0, le=4, description="share of the link rate instead, such as 50%")
    size: int | None = Field(default=None, ge=64, description="payload in bytes; left out: the path MTU")
    example: ClassVar = {"from": "h1", "to": "h2", "plane": 1, "uplink": 2, "rate_pps": 500}
    action_class: ClassVar = SendBackground

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> "Background":
        if (self.rate_pps is None) == (self.load is None):
            raise ValueError("background traffic needs either rate_pps or load (such as 50%, of the link rate)")
        if self.source == self.destination:
            raise ValueError(f"background traffic goes from {self.source} to itself; name two hosts")
        fabric = fabric_of(info)
        if fabric and (self.size or 0) > (most := fabric.spec.path_mtu):
            raise ValueError(f"size {self.size} exceeds the path MTU, {most}; lower it")
        if fabric and self.packets_per_second(fabric) < _SLOWEST:
            field = "load" if self.rate_pps is None else "rate_pps"
            raise ValueError(f"its packets are less than {_SLOWEST} a second; raise {field}")
        if fabric and self.path(fabric) not in fabric.paths(self.source, self.destination):
            uplinks = sorted({uplink for _, uplink in fabric.paths(self.source, self.destination)})
            known = ", ".join(map(str, uplinks))
            raise ValueError(f"no uplink {self.uplink} leads from {self.source} to {self.destination}; choose {known}")
        return self

    def path(self, fabric: Fabric) -> tuple[int, int]:
        """Return (plane, uplink) of its path: where none is named, the first."""
        if self.uplink is not None:
            return self.plane, self.uplink
        return self.plane, fabric.paths(self.source, self.destination)[0][1]

    def packets_per_second(self, fabric: Fabric) -> float:
        """Return its rate."""
        return self.rate_pps if self.rate_pps is not None else (self.load or 0.0) * fabric.spec.link.rate_pps

    @override
    def text(self, fabric: Fabric) -> str:
        plane, uplink = self.path(fabric)
        path_text = f"plane {plane}, uplink {uplink}" if uplink else f"plane {plane}"
        rate = self.packets_per_second(fabric)
        return f"{rate:g} packets/s of other traffic from {self.source} to {self.destination} by {path_text}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        def carried() -> list[int]:
            return probe.forwarded("h1", "h2", 1, 2)

        def crossed(now: list[int]) -> bool:  # by every cable, since they are read one after the other
            return all(b - a >= 20 for a, b in zip(before, now, strict=True))

        before = carried()
        probe.inject()
        seen = probe.wait_for(carried, crossed)
        probe.clear()
        probe.expect(probe.counters["sent"] >= 20, f"it counted {probe.counters}")
        probe.expect(crossed(seen), "its packets do not cross the whole path")
