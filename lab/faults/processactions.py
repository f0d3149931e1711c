"""What is done for faults of switches, of the controller and of agents, and for background traffic."""

import math
from collections.abc import Mapping

from mrclab.lab.errors import RunError
from mrclab.lab.faults.action import Counters, FaultAction, Ground, Healed, Sending
from mrclab.lab.faults.processmodels import (
    AgentCrash,
    Background,
    ControllerCrash,
    ControllerPartition,
    ControllerRestart,
    ControllerSlow,
    SwitchCrash,
    SwitchFreeze,
    SwitchReboot,
    WrongEntry,
)

CONTROLLER = "controller"
_LOOK_AGAIN = 0.05  # seconds between two looks whether a switch is provisioned
_PATIENCE = 10.0  # seconds until a switch that came back gets its carrier even so: there may be no controller


class Crash(FaultAction[SwitchCrash]):
    """The switch's process is killed."""

    def strike(self) -> None:
        """Kill it."""
        self.ground.breakage.kill(self.fault.switch)

    def heal(self) -> None:
        """Start it anew; the controller finds it empty and provisions it."""
        self.ground.breakage.restart(self.fault.switch)


class Freeze(FaultAction[SwitchFreeze]):
    """The switch's process stands still."""

    def strike(self) -> None:
        """Stop it."""
        self.ground.breakage.freeze(self.fault.switch)

    def heal(self) -> None:
        """Let it go on, unless something else has ended it."""
        if self.ground.breakage.is_alive(self.fault.switch):
            self.ground.breakage.thaw(self.fault.switch)


class Reboot(FaultAction[SwitchReboot]):
    """Carrier goes, the switch stands or ends; then it starts, and carrier returns as soon as it forwards."""

    def __init__(self, ground: Ground, fault: SwitchReboot) -> None:
        super().__init__(ground, fault)
        self._powered = True
        self._give_up = math.inf

    def strike(self) -> None:
        """Power goes."""
        fault, breakage = self.fault, self.ground.breakage
        breakage.hold_down(fault.name, *fault.links(self.ground.fabric))
        self._powered = False
        if fault.keep_state:
            breakage.freeze(fault.switch)
        else:
            breakage.kill(fault.switch)
        self.due = self.ground.now + fault.takes

    def advance(self, now: float) -> list[str]:
        """Start it; then wait until the controller has provisioned it."""
        if now < self.due or self.finished:
            return []
        if not self._powered:
            self._power_up()
        if self.fault.keep_state or now > self._give_up or self._is_provisioned():
            self.ground.breakage.let_go(self.fault.name)
            self.finished, self.due = True, math.inf
        else:
            self.due = self.ground.now + _LOOK_AGAIN
        return []

    def heal(self) -> None:
        """Whatever has not been done yet."""
        if not self._powered:
            self._power_up()
        while not (self.finished or self.fault.keep_state or self._is_provisioned()):
            if self.ground.now > self._give_up:
                break
            self.ground.pause(_LOOK_AGAIN)
        self.ground.breakage.let_go(self.fault.name)

    def _power_up(self) -> None:
        if self.fault.keep_state:
            self.ground.breakage.thaw(self.fault.switch)
        else:
            self.ground.breakage.restart(self.fault.switch)
        self._powered = True
        self._give_up = self.ground.now + _PATIENCE

    def _is_provisioned(self) -> bool:
        if not self.ground.breakage.is_alive(CONTROLLER):
            return False
        try:
            states = self.ground.call(CONTROLLER, "status")["by_switch"]
        except RunError:
            return False
        return bool(states[self.fault.switch]["state"] == "ready")


class Misroute(FaultAction[WrongEntry]):
    """The controller writes a wrong entry, and keeps what it wants."""

    def strike(self) -> None:
        """Write it."""
        fault = self.fault
        self.ground.call(CONTROLLER, "misroute", switch=fault.switch, port=fault.port, to=fault.to)

    def heal(self) -> None:
        """Have the controller mend what its audit finds."""
        self.ground.call(CONTROLLER, "repair", switch=self.fault.switch)


class CrashController(FaultAction[ControllerCrash]):
    """The controller is killed."""

    def strike(self) -> None:
        """Kill it."""
        self.ground.breakage.kill(CONTROLLER)

    def heal(self) -> None:
        """Start another."""
        self.ground.breakage.restart(CONTROLLER)


class RestartController(FaultAction[ControllerRestart]):
    """The controller ends in good order, and another starts."""

    def strike(self) -> None:
        """End it and start another."""
        self.ground.breakage.terminate(CONTROLLER)
        self.ground.breakage.restart(CONTROLLER)
        self.finished = True

    def heal(self) -> None:
        """Start one where that came to nothing."""
        if not self.ground.breakage.is_alive(CONTROLLER):
            self.ground.breakage.restart(CONTROLLER)


class CutControl(FaultAction[ControllerPartition]):
    """One control channel is cut from outside both of its ends."""

    def __init__(self, ground: Ground, fault: ControllerPartition) -> None:
        super().__init__(ground, fault)
        self._cut: Healed | None = None

    def strike(self) -> None:
        """Cut it."""
        self._cut = self.ground.breakage.cut_control(self.fault.switch)

    def heal(self) -> None:
        """Let the controller find the switch again."""
        if self._cut is not None:
            self._cut.heal()
            self._cut = None


class SlowController(FaultAction[ControllerSlow]):
    """The controller stands still for a part of every period."""

    def __init__(self, ground: Ground, fault: ControllerSlow) -> None:
        super().__init__(ground, fault)
        self._standing = False

    def strike(self) -> None:
        """The first pause."""
        self.due = self.ground.now
        self.advance(self.due)

    def advance(self, now: float) -> list[str]:
        """Stop it, or let it go on."""
        if now < self.due or not self.ground.breakage.is_alive(CONTROLLER):
            return []
        if self._standing:
            self.ground.breakage.thaw(CONTROLLER)
            self.due += self.fault.period - self.fault.pause
        else:
            self.ground.breakage.freeze(CONTROLLER)
            self.due += self.fault.pause
        self._standing = not self._standing
        return []

    def heal(self) -> None:
        """Let it go on."""
        if self._standing and self.ground.breakage.is_alive(CONTROLLER):
            self.ground.breakage.thaw(CONTROLLER)


class CrashAgent(FaultAction[AgentCrash]):
    """A host's agent is killed."""

    def strike(self) -> None:
        """Kill it."""
        self.ground.breakage.kill(self.fault.host)

    def heal(self) -> None:
        """Start another."""
        self.ground.breakage.restart(self.fault.host)


class SendBackground(FaultAction[Background]):
    """Somebody else sends along one path."""

    def __init__(self, ground: Ground, fault: Background) -> None:
        super().__init__(ground, fault)
        self._sending: Sending | None = None

    def strike(self) -> None:
        """Begin."""
        fault, fabric = self.fault, self.ground.fabric
        rate, path = fault.packets_per_second(fabric), fault.path(fabric)
        size = fault.size or fabric.spec.path_mtu
        self._sending = self.ground.breakage.background(fault.source, fault.destination, path, rate, size, fault.name)

    def heal(self) -> Counters:
        """End; returns packets sent, and those that found no carrier."""
        if self._sending is None:
            return {}
        sent, refused = self._sending.heal()
        return {"sent": sent, "refused": refused}


PROCESS_ACTIONS: Mapping[str, type[FaultAction]] = {  # type: ignore[type-arg]
    "switch_crash": Crash,
    "switch_freeze": Freeze,
    "switch_reboot": Reboot,
    "wrong_entry": Misroute,
    "controller_crash": CrashController,
    "controller_restart": RestartController,
    "controller_partition": CutControl,
    "controller_slow": SlowController,
    "agent_crash": CrashAgent,
    "background": SendBackground,
}
