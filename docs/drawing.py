"""Pictures in docs/ from templates, which have one style for light and dark screens; places of a fabric's nodes."""

from pathlib import Path
from typing import Any

from mrclab.lab.report.palette import BROKEN, PASSED, PLANES
from mrclab.lab.report.template import fill
from mrclab.topo.model import Fabric

WIDE = 900
Place = tuple[float, float]
Places = dict[str, Place]
"""Middle of each node, by name."""

_FOLDER = Path(__file__).parent / "drawings"


def picture(name: str, **context: Any) -> str:
    """Return the picture of a template in docs/drawings/."""
    base = {"wide": WIDE, "bad": BROKEN, "good": PASSED, "hues": PLANES[:4]}
    return fill(_FOLDER / f"{name}.svg.j2", {**base, **context}, g="{:g}".format) + "\n"


def places(fabric: Fabric, wide: float, rows: tuple[float, float, float] = (30, 120, 210), left: float = 0) -> Places:
    """Return the places of all nodes, as on the live page; `rows` are the heights of T1s, T0s and hosts."""
    found = {}
    each = wide / fabric.planes
    for tier, y in zip(("t1", "t0"), rows, strict=False):
        for plane in range(1, fabric.planes + 1):
            row = [switch.name for switch in fabric.switches if (switch.tier, switch.plane) == (tier, plane)]
            for n, name in enumerate(row):
                found[name] = (left + (plane - 1) * each + (n + 0.5) * each / len(row), y)
    for n, host in enumerate(fabric.hosts):
        found[host.name] = (left + (n + 0.5) * wide / len(fabric.hosts), rows[-1])
    return found


def ends(fabric: Fabric, at: Places) -> dict[str, tuple[Place, Place]]:
    """Return the places of both ends of each cable, by its name."""
    return {link.name: (at[link.a.node], at[link.b.node]) for link in fabric.links}
