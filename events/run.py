"""Records of a run: its world, its scenario, its errors, and the lateness of the lab's own process."""

from typing import ClassVar

from mrclab.events.event import Event, Seconds, event


@event
class WorldBegin(Event):
    """Begin of virtual time; `world` is `sim`."""

    kind: ClassVar[str] = "world"
    world: str


@event
class ScenarioText(Event):
    """Text of the scenario that is run, as `scenario.yaml` has it."""

    kind: ClassVar[str] = "scenario"
    text: str


@event
class LabUp(Event):
    """Readiness of the lab, with its bring-up time."""

    kind: ClassVar[str] = "lab.up"
    seconds: Seconds


@event
class RunBroken(Event):
    """Reason for which a run does not go to its end."""

    kind: ClassVar[str] = "run.broken"
    why: str


@event
class LabLate(Event):
    """Lateness of the lab's own process, which makes a run [INVALID](expectations.md#an-invalid-run)."""

    kind: ClassVar[str] = "lab.late"
    late: Seconds


@event
class MachineSlow(Event):
    """Reason for which the machine is too slow for this run."""

    kind: ClassVar[str] = "machine.slow"
    why: str
