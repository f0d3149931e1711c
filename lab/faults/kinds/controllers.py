"""Faults of the controller and of its channels to switches."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from mrclab.lab.faults.action import CONTROLLER, Clearable, FaultAction, SteppedAction
from mrclab.lab.faults.base import FAULTS, FaultBase, LastingFault
from mrclab.lab.faults.families import KillProcess
from mrclab.lab.faults.overlap import CHANNEL, PROCESS, THE_CONTROLLER
from mrclab.lab.faults.probe import SWITCH, FaultProbe
from mrclab.lab.scenario.names import SwitchName
from mrclab.lab.scenario.units import Duration, show_seconds
from mrclab.topo.model import Fabric


class ControllerFault(FaultBase):
    """A fault of the controller's process; no other may have it at the same time."""

    needs_controller: ClassVar = True
    claimed: ClassVar = (THE_CONTROLLER,)


@FAULTS.register
class ControllerCrash(ControllerFault, LastingFault):
    """The controller is killed. At its end: started again; it adopts the switches that run."""

    kind: Literal["controller_crash"]
    action_class: ClassVar = KillProcess
    phrase: ClassVar = "the controller crashes"
    killed: ClassVar = (CONTROLLER,)

    @override
    def self_test(self, probe: FaultProbe) -> None:
        before = {name: pid for name, pid in probe.processes().items() if name != CONTROLLER}
        probe.inject()
        probe.expect(not probe.is_alive(CONTROLLER), "a killed controller is alive")
        probe.clear()
        probe.expect(before.items() <= probe.processes().items(), "other processes ended with the controller")


class RestartController(FaultAction["ControllerRestart"]):
    """End the controller in good order, and start another."""

    @override
    def inject(self) -> None:
        self.context.injector.terminate(CONTROLLER)
        self.context.injector.restart(CONTROLLER)
        self.finished = True

    @override
    def clear(self) -> None:
        if not self.context.injector.is_alive(CONTROLLER):
            self.context.injector.restart(CONTROLLER)


@FAULTS.register
class ControllerRestart(ControllerFault):
    """The controller ends in good order and starts again at once. Ends without being cleared."""

    kind: Literal["controller_restart"]
    action_class: ClassVar = RestartController
    phrase: ClassVar = "the controller restarts"
    killed: ClassVar = (CONTROLLER,)

    @property
    @override
    def lasts(self) -> float:
        return 0.0

    @override
    def self_test(self, probe: FaultProbe) -> None:
        pid = probe.processes()[CONTROLLER]
        probe.inject()
        probe.wait_until_over()
        probe.expect(probe.processes()[CONTROLLER] != pid, "the controller was not started again")


class CutControl(FaultAction["ControllerPartition"]):
    """Cut one control channel from outside both of its ends."""

    _cut: Clearable | None = None

    @override
    def inject(self) -> None:
        self._cut = self.context.injector.cut_control(self.fault.switch)

    @override
    def clear(self) -> None:
        if self._cut is not None:
            self._cut.clear()
            self._cut = None


@FAULTS.register
class ControllerPartition(LastingFault):
    """The control channel of one switch is cut, and cannot be opened again until the fault ends."""

    kind: Literal["controller_partition"]
    switch: SwitchName
    worlds: ClassVar = frozenset({"wire"})  # there are no control channels in virtual time
    example: ClassVar = {"switch": SWITCH}
    action_class: ClassVar = CutControl
    needs_controller: ClassVar = True
    phrase: ClassVar = "the controller is cut off from {0.switch}"
    claimed: ClassVar = (CHANNEL,)
    needed: ClassVar = (PROCESS,)  # whose socket is hidden; one that starts again makes another

    @override
    def self_test(self, probe: FaultProbe) -> None:
        def away() -> list[str]:
            switches = probe.call(CONTROLLER, "status")["by_switch"]
            return [name for name, state in switches.items() if state["state"] != "ready"]

        probe.inject()
        lost = probe.wait_for(away, bool)
        probe.clear()
        probe.expect(lost == [SWITCH], f"the controller lost {lost}")
        probe.expect(probe.is_alive(SWITCH), "the switch died")


class SlowController(SteppedAction["ControllerSlow"]):
    """Stop the controller for a part of every period."""

    _stopped = False

    @override
    def steps(self) -> Iterator[float]:
        injector, due = self.context.injector, self.context.now
        while True:
            if not injector.is_alive(CONTROLLER):
                due += self.fault.period  # something else ended it
            elif self._stopped:
                injector.thaw(CONTROLLER)
                self._stopped = False
                due += self.fault.period - self.fault.pause
            else:
                injector.freeze(CONTROLLER)
                self._stopped = True
                due += self.fault.pause
            yield due

    @override
    def clear(self) -> None:
        if self._stopped and self.context.injector.is_alive(CONTROLLER):
            self.context.injector.thaw(CONTROLLER)


@FAULTS.register
class ControllerSlow(ControllerFault, LastingFault):
    """The controller gets only a part of the time: it is stopped for `pause` out of every `period`."""

    kind: Literal["controller_slow"]
    period: Duration = Field(default=1.0, ge=0.1, le=60)
    pause: Duration = Field(default=0.8, ge=0.05, le=60)
    worlds: ClassVar = frozenset({"wire"})  # there is no process to stop in virtual time
    example: ClassVar = {"period": 0.2, "pause": 0.1}
    action_class: ClassVar = SlowController
    stopped: ClassVar = (CONTROLLER,)

    @model_validator(mode="after")
    def _some_time_left(self) -> "ControllerSlow":
        if self.pause >= self.period:
            pause, period = show_seconds(self.pause), show_seconds(self.period)
            raise ValueError(f"a pause of {pause} leaves nothing of a period of {period}; lower it")
        return self

    @override
    def text(self, fabric: Fabric) -> str:
        return f"the controller is stopped for {show_seconds(self.pause)} of every {show_seconds(self.period)}"

    @override
    def self_test(self, probe: FaultProbe) -> None:
        pid = probe.processes()[CONTROLLER]

        def expect_stopped(stopped: bool) -> None:
            seen = probe.wait_for(lambda: probe.process_state(pid) == "T", stopped.__eq__)
            probe.expect(seen == stopped, f"the controller does not {'stop' if stopped else 'go on'}")

        probe.inject()
        for stopped in (True, False):
            expect_stopped(stopped)
            probe.step()
        expect_stopped(stopped=True)
        probe.clear()
        expect_stopped(stopped=False)
