"""Faults of switches, of the controller and of hosts' agents, and traffic that nobody asked for."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from mrclab.lab.faults.base import FaultBase, LastingFault, links_of_switch
from mrclab.lab.scenario.names import HostName, PlaneNumber, SwitchName
from mrclab.lab.scenario.units import Duration, Percent, show_seconds
from mrclab.topo.model import Fabric

CONTROLLER = "the controller"
_CONTROLLER_NAME = "controller"  # of its process
_PROVISIONING = 10.0  # seconds that a rebooted switch may take at most to come back: `processactions` waits no longer


def _process_of(switch: str) -> str:
    return f"the process of {switch}"


def _running_of(switch: str) -> str:
    return f"whether {switch} runs"


def _channel_of(switch: str) -> str:
    return f"the control channel of {switch}"


class SwitchFault(LastingFault):
    """A fault of one switch."""

    switch: SwitchName

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """All its cables."""
        return links_of_switch(fabric, self.switch)


class SwitchCrash(SwitchFault):
    """The switch's process is killed; carrier stays. Healed: started anew, empty, for the controller to provision."""

    kind: Literal["switch_crash"]

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """The switch."""
        del fabric
        return (self.switch,)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.switch} crashes"

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The switch and its process."""
        del fabric
        return frozenset({_running_of(self.switch), _process_of(self.switch)})


class SwitchFreeze(SwitchFault):
    """The switch stands still with carrier up, and goes on with the state that it had."""

    kind: Literal["switch_freeze"]

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.switch} freezes"

    def stops(self, fabric: Fabric) -> tuple[str, ...]:
        """The switch."""
        del fabric
        return (self.switch,)

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The switch."""
        del fabric
        return frozenset({_running_of(self.switch)})


class SwitchReboot(FaultBase):
    """The switch restarts: carrier goes, comes back when it forwards again. Over by itself."""

    kind: Literal["switch_reboot"]
    switch: SwitchName
    takes: Duration = Field(default=0.5, ge=0, le=600, description="seconds without power, before it starts again")
    keep_state: bool = Field(default=False, description="it still has its program and entries afterwards")

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """All its cables."""
        return links_of_switch(fabric, self.switch)

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """The switch, unless it keeps its state."""
        del fabric
        return () if self.keep_state else (self.switch,)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"{self.switch} reboots" + (", keeping its state" if self.keep_state else "")

    def stops(self, fabric: Fabric) -> tuple[str, ...]:
        """The switch, in either case."""
        del fabric
        return (self.switch,)

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The switch, and its process unless it keeps its state."""
        del fabric
        return frozenset({_running_of(self.switch)} | (set() if self.keep_state else {_process_of(self.switch)}))

    @property
    def lasts(self) -> float:
        """With the time until it is provisioned again."""
        return self.takes + _PROVISIONING


class WrongEntry(SwitchFault):
    """A switch sends what should leave by one port out of another, or drops it. The controller wants what it wanted."""

    kind: Literal["wrong_entry"]
    port: int = Field(ge=1, description="whose route becomes wrong")
    to: int = Field(default=0, ge=0, description="the port that it leads to now; 0: the entry is missing")

    @field_validator("port", "to")
    @classmethod
    def _exists(cls, port: int, info: ValidationInfo) -> int:
        fabric, switch = (info.context or {}).get("fabric"), info.data.get("switch")
        if isinstance(fabric, Fabric) and switch and port:
            count = len(fabric.switch(switch).ports)
            if port > count:
                raise ValueError(f"{switch} has no port {port}; it has ports 1 to {count}")
        return port

    @model_validator(mode="after")
    def _elsewhere(self) -> "WrongEntry":
        if self.port == self.to:
            raise ValueError(f"port {self.port} to port {self.to} is right; name another port, or 0 for no entry")
        return self

    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cable of the port whose route is wrong, and of the one that its packets leave by."""
        ports = fabric.switch(self.switch).ports
        return tuple(ports[number - 1].link for number in (self.port, self.to) if number)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        where = f"out of port {self.to}" if self.to else "nowhere"
        return f"{self.switch} sends what is for port {self.port} {where}"

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The entries of the switch, which are mended all together."""
        del fabric
        return frozenset({f"the entries of {self.switch}"})

    def needs(self, fabric: Fabric) -> frozenset[str]:
        """Who writes them, and who holds them."""
        del fabric
        return frozenset({CONTROLLER, _channel_of(self.switch), _running_of(self.switch)})


class ControllerCrash(LastingFault):
    """The controller is killed. Healed: started anew; it adopts the switches that run."""

    kind: Literal["controller_crash"]

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """The controller."""
        del fabric
        return ("controller",)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return "the controller crashes"

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The controller."""
        del fabric
        return frozenset({CONTROLLER})


class ControllerRestart(FaultBase):
    """The controller ends in good order and starts anew at once. Over by itself."""

    kind: Literal["controller_restart"]

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """The controller."""
        del fabric
        return ("controller",)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return "the controller restarts"

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The controller."""
        del fabric
        return frozenset({CONTROLLER})

    @property
    def lasts(self) -> float:
        """It is over when it has struck."""
        return 0.0


class ControllerPartition(LastingFault):
    """The control channel of one switch is cut, and cannot be opened again until this is healed."""

    kind: Literal["controller_partition"]
    switch: SwitchName

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"the controller is cut off from {self.switch}"

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The channel."""
        del fabric
        return frozenset({_channel_of(self.switch)})

    def needs(self, fabric: Fabric) -> frozenset[str]:
        """The process whose socket is hidden; one that starts anew makes another."""
        del fabric
        return frozenset({_process_of(self.switch)})


class ControllerSlow(LastingFault):
    """The controller gets only a part of the time: it stands still for `pause` out of every `period`."""

    kind: Literal["controller_slow"]
    period: Duration = Field(default=1.0, ge=0.1, le=60)
    pause: Duration = Field(default=0.8, ge=0.05, le=60)

    @model_validator(mode="after")
    def _some_time_left(self) -> "ControllerSlow":
        if self.pause >= self.period:
            raise ValueError(f"a pause of {self.pause:g} s leaves nothing of a period of {self.period:g} s; lower it")
        return self

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"the controller stands still for {show_seconds(self.pause)} of every {show_seconds(self.period)}"

    def stops(self, fabric: Fabric) -> tuple[str, ...]:
        """The controller."""
        del fabric
        return (_CONTROLLER_NAME,)

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The controller."""
        del fabric
        return frozenset({CONTROLLER})


class AgentCrash(LastingFault):
    """A host's agent is killed, and its QPs with it. Healed: started anew, without them."""

    kind: Literal["agent_crash"]
    host: HostName

    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        """The agent."""
        del fabric
        return (self.host,)

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        return f"the agent of {self.host} crashes"

    def claims(self, fabric: Fabric) -> frozenset[str]:
        """The agent."""
        del fabric
        return frozenset({f"the agent of {self.host}"})


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

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> "Background":
        if (self.rate_pps is None) == (self.load is None):
            raise ValueError("background traffic needs either rate_pps or load (such as 50%, of the link rate)")
        if self.source == self.destination:
            raise ValueError(f"background traffic goes from {self.source} to itself; name two hosts")
        fabric = (info.context or {}).get("fabric")
        if isinstance(fabric, Fabric) and self.path(fabric) not in fabric.paths(self.source, self.destination):
            ways = sorted({uplink for _, uplink in fabric.paths(self.source, self.destination)})
            known = ", ".join(map(str, ways))
            raise ValueError(f"no uplink {self.uplink} leads from {self.source} to {self.destination}; choose {known}")
        return self

    def path(self, fabric: Fabric) -> tuple[int, int]:
        """(plane, uplink) that it takes: where none is named, the first."""
        if self.uplink is not None:
            return self.plane, self.uplink
        return self.plane, fabric.paths(self.source, self.destination)[0][1]

    def packets_per_second(self, fabric: Fabric) -> float:
        """Its rate."""
        return self.rate_pps if self.rate_pps is not None else (self.load or 0.0) * fabric.spec.link.rate_pps

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        plane, uplink = self.path(fabric)
        way = f"plane {plane}, uplink {uplink}" if uplink else f"plane {plane}"
        rate = self.packets_per_second(fabric)
        return f"{rate:g} packets/s of other traffic from {self.source} to {self.destination} by {way}"


PROCESS_KINDS: tuple[type[FaultBase], ...] = (
    SwitchCrash,
    SwitchFreeze,
    SwitchReboot,
    WrongEntry,
    ControllerCrash,
    ControllerRestart,
    ControllerPartition,
    ControllerSlow,
    AgentCrash,
    Background,
)
