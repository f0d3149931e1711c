"""Faults of one switch: its process, its power, its table entries."""

import math
import random
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from typing_extensions import override

from mrclab.lab.errors import RunError
from mrclab.lab.faults.action import CONTROLLER, FaultAction, SteppedAction
from mrclab.lab.faults.base import FAULTS, FaultBase, links_of_switch
from mrclab.lab.faults.families import KillProcess, SwitchFault, random_bool, random_switch
from mrclab.lab.faults.overlap import CHANNEL, PROCESS, RUNNING, THE_CONTROLLER
from mrclab.lab.faults.probe import SWITCH, FaultProbe
from mrclab.lab.scenario.names import SwitchName, fabric_of
from mrclab.lab.scenario.units import Duration
from mrclab.topo.model import Fabric

_LOOK_AGAIN = 0.05  # seconds between two checks that a switch is provisioned, times the fabric's `time_scale`
_PROVISIONING = 10.0  # the same until a switch gets its carrier unprovisioned: there may be no controller


@FAULTS.register
class SwitchCrash(SwitchFault):
    """The switch's process is killed; carrier stays. At its end: started empty, for the controller to provision."""

    kind: Literal["switch_crash"]
    example: ClassVar = {"switch": SWITCH}
    draws: ClassVar = {"switch": random_switch}
    action_class: ClassVar = KillProcess
    needs_controller: ClassVar = True
    phrase: ClassVar = "{0.switch} crashes"
    killed: ClassVar = ("{0.switch}",)
    claimed: ClassVar = (RUNNING, PROCESS)

    @override
    def self_test(self, probe: FaultProbe) -> None:
        pid = probe.processes()[SWITCH]
        probe.inject()
        probe.expect(not probe.is_alive(SWITCH), "a killed switch is alive")
        probe.expect(not probe.without_carrier(), "carrier was lost with the process")
        probe.clear()
        probe.expect(probe.processes()[SWITCH] != pid, "it was not started again")


class Freeze(FaultAction["SwitchFreeze"]):
    """Stop the switch's process; continue it, unless it has ended meanwhile."""

    @override
    def inject(self) -> None:
        self.context.injector.freeze(self.fault.switch)

    @override
    def clear(self) -> None:
        if self.context.injector.is_alive(self.fault.switch):
            self.context.injector.thaw(self.fault.switch)


@FAULTS.register
class SwitchFreeze(SwitchFault):
    """The switch is stopped with carrier up, and continues with the state that it had."""

    kind: Literal["switch_freeze"]
    example: ClassVar = {"switch": SWITCH}
    draws: ClassVar = {"switch": random_switch}
    action_class: ClassVar = Freeze
    phrase: ClassVar = "{0.switch} freezes"
    stopped: ClassVar = ("{0.switch}",)
    claimed: ClassVar = (RUNNING,)

    @override
    def self_test(self, probe: FaultProbe) -> None:
        pid = probe.processes()[SWITCH]
        probe.inject()
        stopped = probe.process_state(pid) == "T"
        probe.clear()
        goes_on = probe.process_state(pid) != "T"
        probe.expect(stopped and goes_on, "a frozen switch runs, or it stays stopped after the fault is cleared")


class Reboot(SteppedAction["SwitchReboot"]):
    """Take power and carrier; give power back, and carrier as soon as the switch forwards."""

    _powered = True
    _give_up = math.inf

    @override
    def steps(self) -> Iterator[float]:
        fault, injector = self.fault, self.context.injector
        injector.hold_down(fault.name, *fault.links(self.context.fabric))
        self._powered = False
        if fault.keep_state:
            injector.freeze(fault.switch)
        else:
            injector.kill(fault.switch)
        yield self.context.now + fault.takes
        self._power_up()
        while not self._is_over():
            yield self.context.now + self._scaled(_LOOK_AGAIN)
        injector.release(fault.name)

    @override
    def clear(self) -> None:
        if not self._powered:
            self._power_up()
        while not (self.finished or self._is_over()):
            self.context.pause(self._scaled(_LOOK_AGAIN))
        self.context.injector.release(self.fault.name)

    def _power_up(self) -> None:
        if self.fault.keep_state:
            self.context.injector.thaw(self.fault.switch)
        else:
            self.context.injector.restart(self.fault.switch)
        self._powered = True
        self._give_up = self.context.now + self._scaled(_PROVISIONING)

    def _scaled(self, seconds: float) -> float:
        return seconds * self.context.fabric.spec.time_scale

    def _is_over(self) -> bool:
        """Return True if the switch may get its carrier: it forwards, or too much time has passed."""
        return self.fault.keep_state or self.context.now > self._give_up or self._is_provisioned()

    def _is_provisioned(self) -> bool:
        if not self.context.injector.is_alive(CONTROLLER):
            return False
        try:
            states = self.context.call(CONTROLLER, "status")["by_switch"]
        except RunError:
            return False
        return bool(states[self.fault.switch]["state"] == "ready")


@FAULTS.register
class SwitchReboot(FaultBase):
    """The switch restarts: carrier goes, comes back when it forwards again. Ends without being cleared."""

    kind: Literal["switch_reboot"]
    switch: SwitchName
    takes: Duration = Field(default=0.5, ge=0, le=600, description="seconds without power, before it starts again")
    keep_state: bool = Field(default=False, description="it still has its program and entries afterwards")
    example: ClassVar = {"switch": SWITCH, "takes": 0.1}
    draws: ClassVar = {"switch": random_switch, "keep_state": random_bool}
    action_class: ClassVar = Reboot
    takes_carrier: ClassVar = True
    needs_controller: ClassVar = True
    stopped: ClassVar = ("{0.switch}",)

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        return links_of_switch(fabric, self.switch)

    @override
    def processes(self, fabric: Fabric) -> tuple[str, ...]:
        return () if self.keep_state else (self.switch,)

    @override
    def text(self, fabric: Fabric) -> str:
        return f"{self.switch} reboots" + (", keeping its state" if self.keep_state else "")

    @override
    def claims(self, fabric: Fabric) -> frozenset[str]:
        return frozenset(self._filled((RUNNING,) if self.keep_state else (RUNNING, PROCESS)))

    @property
    @override
    def lasts(self) -> float:
        return self.takes + _PROVISIONING

    @override
    def self_test(self, probe: FaultProbe) -> None:
        pid = probe.processes()[SWITCH]
        probe.inject()
        dead = probe.without_carrier()
        probe.wait_until_over()
        probe.expect(len(dead) == 2 * len(probe.links), f"without carrier were {dead}")
        probe.expect(probe.processes()[SWITCH] != pid, "it was not started again")
        state = probe.call(CONTROLLER, "status")["by_switch"][SWITCH]["state"]
        probe.expect(state == "ready", "its carrier came before its entries")
        warm = probe.another("switch_reboot", **self.example, keep_state=True)
        pid = probe.processes()[SWITCH]
        warm.inject()
        stopped = probe.process_state(pid) == "T"
        warm.wait_until_over()
        kept = stopped and probe.processes()[SWITCH] == pid
        probe.expect(kept, "a switch that keeps its state was started again")
        probe.expect(not probe.without_carrier(), "carrier does not come back")


class Misroute(FaultAction["WrongEntry"]):
    """Have the controller write a wrong entry, and repair the entries that its audit finds wrong."""

    @override
    def inject(self) -> None:
        fault = self.fault
        self.context.call(CONTROLLER, "misroute", switch=fault.switch, port=fault.port, to=fault.to)

    @override
    def clear(self) -> None:
        self.context.call(CONTROLLER, "repair", switch=self.fault.switch)


@FAULTS.register
class WrongEntry(SwitchFault):
    """A switch forwards packets for one port out of another, or drops them; the controller's intent stays correct."""

    kind: Literal["wrong_entry"]
    port: int = Field(ge=1, description="whose route becomes wrong")
    to: int = Field(default=0, ge=0, description="the port that it leads to now; 0: the entry is missing")
    example: ClassVar = {"switch": SWITCH, "port": 1, "to": 2}
    action_class: ClassVar = Misroute
    needs_controller: ClassVar = True
    claimed: ClassVar = ("the entries of {0.switch}",)  # which are repaired all together
    needed: ClassVar = (THE_CONTROLLER, CHANNEL, RUNNING)

    @field_validator("port", "to")
    @classmethod
    def _exists(cls, port: int, info: ValidationInfo) -> int:
        fabric, switch = fabric_of(info), info.data.get("switch")
        if fabric and switch and port:
            count = len(fabric.switch(switch).ports)
            if port > count:
                raise ValueError(f"{switch} has no port {port}; it has ports 1 to {count}")
        return port

    @model_validator(mode="after")
    def _elsewhere(self) -> "WrongEntry":
        if self.port == self.to:
            raise ValueError(f"port {self.port} to port {self.to} is right; name another port, or 0 for no entry")
        return self

    @override
    def links(self, fabric: Fabric) -> tuple[str, ...]:
        """The cable of the port whose route is wrong, and that of the port by which its packets leave."""
        ports = fabric.switch(self.switch).ports
        return tuple(ports[number - 1].link for number in (self.port, self.to) if number)

    @override
    def text(self, fabric: Fabric) -> str:
        where = f"out of port {self.to}" if self.to else "nowhere"
        return f"{self.switch} sends what is for port {self.port} {where}"

    @override
    @classmethod
    def draw(cls, draw: random.Random, fabric: Fabric) -> dict[str, Any]:
        switch = draw.choice([switch for switch in fabric.switches if len(switch.ports) > 1])
        port, to = draw.sample(range(1, len(switch.ports) + 1), 2)
        return {"switch": switch.name, "port": port, "to": draw.choice((0, to))}

    @override
    def self_test(self, probe: FaultProbe) -> None:
        probe.inject()
        found = probe.call(CONTROLLER, "audit")["entries"]
        probe.clear()
        probe.expect(len(found) == 1 and SWITCH in found[0], f"the audit found {found}")
        left = probe.call(CONTROLLER, "audit")["entries"]
        probe.expect(not left, f"still wrong: {left}")
