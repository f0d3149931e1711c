"""A net below all tests that simulate: records of every kind and set of fields must come back from their class.

Of each, the first that any test writes is looked at, so that it costs next to nothing.
"""

import json
import sys
from typing import Any

_seen: set[tuple[str, ...]] = set()
_complaints: list[str] = []


def fault(line: str) -> str:
    """Return how a line differs from what its class makes of it; "" where it does not."""
    from mrclab.events import codec  # noqa: PLC0415 - only tests that simulate pay for it

    try:
        again = json.loads(codec.encode(codec.decode(line)))
    except codec.EventError as error:
        return str(error)
    told = json.loads(line)
    differing = sorted(name for name in told.keys() | again.keys() if told.get(name, ...) != again.get(name, ...))
    return f"{told['kind']}: its class in mrclab.events lacks or changes {', '.join(differing)}" if differing else ""


def spread() -> None:
    """Look at what simulated worlds of this process write from now on."""
    world = sys.modules.get("mrclab.sim.world")
    if world is None:
        return
    write = world.SimWorld._write

    def checked(self: Any, node: str, t: float, record: dict[str, Any]) -> Any:
        whole = write(self, node, t, record)
        shape = (record["kind"], *whole)
        if shape not in _seen:
            _seen.add(shape)
            if found := fault(json.dumps(whole)):
                _complaints.append(found)
        return whole

    world.SimWorld._write = checked


def taken() -> list[str]:
    """Return what was found since this was asked last."""
    found = _complaints[:]
    _complaints.clear()
    return found
