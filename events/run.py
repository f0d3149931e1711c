"""Records of a run: its world, its scenario, its errors, and the lateness of the lab's own process."""

from mrclab.events.event import Event, Seconds, event


@event("world")
class WorldBegin(Event):
    """Beginning of virtual time; `world` is `sim`."""

    world: str


@event("scenario")
class ScenarioText(Event):
    """Text of the scenario that is run, and the texts of the files that it names, up to a megabyte of them."""

    text: str
    files: dict[str, str] | None = None


@event("lab.up")
class LabUp(Event):
    """Readiness of the lab, with its bring-up time."""

    seconds: Seconds


@event("run.broken")
class RunBroken(Event):
    """Reason why a run is aborted."""

    why: str


@event("lab.late")
class LabLate(Event):
    """Lateness of the lab's own process, which makes a run [INVALID](expectations.md#an-invalid-run)."""

    late: Seconds


@event("machine.slow")
class MachineSlow(Event):
    """Reason why the machine is too slow for this run."""

    why: str
