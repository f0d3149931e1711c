"""Operations of the live page on a session, by name; each returns one phrase to print."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mrclab.lab.errors import LabError
from mrclab.lab.prompt.session import LabSession

LONGEST_SLOW: Final = 120.0  # seconds
MAX_SPEED: Final = 1000.0  # virtual seconds per second


def speed_text(session: LabSession) -> str:
    """Return the speed of virtual time in words; LabError on the wire."""
    if session.speed is None:
        raise LabError("this lab runs in real time; only mrclab up --world sim has a speed")
    return f"{session.speed:g} s of virtual time per second"


def set_speed(session: LabSession, value: object) -> str:
    """Set the speed of virtual time, in virtual seconds per second. ValueError for an invalid one."""
    speed_text(session)
    if not isinstance(value, (int, float)) or not 0 < value <= MAX_SPEED:
        raise ValueError(
            f"invalid speed {value}: expected virtual seconds per second, above 0 and at most {MAX_SPEED:g}"
        )
    session.speed = float(value)
    return speed_text(session)


def _slow(session: LabSession, speed: object, seconds: object) -> str:
    """Slow virtual time for some seconds of the machine's clock. ValueError for invalid arguments."""
    speed_text(session)
    numbers = isinstance(speed, (int, float)) and isinstance(seconds, (int, float))
    if not (numbers and 0 < speed <= 1 and 0 < seconds <= LONGEST_SLOW):  # type: ignore[operator]
        raise ValueError(f"slow takes a speed above 0 and at most 1, for at most {LONGEST_SLOW:g} s")
    session.slow(float(speed), float(seconds))  # type: ignore[arg-type]
    return f"{speed:g} s of virtual time per second, for {seconds:g} s"


def _inject(session: LabSession, kind: object, fields: object) -> str:
    return session.inject(str(kind), _object("fields", fields))


def _start_traffic(session: LabSession, traffic: object) -> str:
    with session.lock:
        return f"{session.lab.start_traffic(_object('traffic', traffic)).name} runs"


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be an object with a field's value by its name")
    return dict(value)


OPERATIONS: Final[Mapping[str, Callable[..., str]]] = {
    "inject": _inject,
    "clear": lambda session, name=None: (
        "\n".join(session.clear(None if name is None else str(name))) or "nothing to clear"
    ),
    "traffic": _start_traffic,
    "speed": set_speed,
    "slow": _slow,
}
"""`operation(session, **arguments)`; LabError or ValueError with one sentence where it is refused."""
