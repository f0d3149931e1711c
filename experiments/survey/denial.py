"""Effect of a denial: a NIC–T0 cable loses 5 % with its carrier up, which MRC alone cannot avoid.

Clustermapper names the cable and has its plane denied; goodput then should be that of the planes that are left.
"""

import random
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from mrclab.experiments.survey.cases import NIC_LOSS
from mrclab.experiments.survey.streams import Streams
from mrclab.lab.errors import RunError
from mrclab.lab.run.world import EventQueue
from mrclab.lab.session.lab import Lab
from mrclab.topo.cables.cablefaults import Direction

WINDOW = 8.0  # seconds over which goodput is measured
SETTLE_RTTS = 40
DENIED_WITHIN = 60.0  # seconds


def run(lab: Lab, seed: int) -> dict[str, Any]:
    """Return goodput before the fault, with it, and after the denial, bytes per second; and when it was denied."""
    fabric = lab.fabric
    rng = random.Random(f"healing {seed}")
    source, destination = fabric.hosts[0], fabric.hosts[-1]
    victim = rng.choice([source, destination])
    cable = victim.port(rng.randint(1, fabric.planes)).link
    direction: Direction = rng.choice(("up", "down"))
    settle = SETTLE_RTTS * fabric.base_rtt(source.name, destination.name)
    streams = Streams(lab, [(source.name, destination.name)])
    with closing(lab.subscribe("controller", "denied")) as events:
        lab.advance(settle)
        before = _goodput(lab, streams)
        with lab.link(cable).loss(f"{NIC_LOSS:%}", direction=direction, seeded=False):
            begun, placed = lab.now, streams.received("placed_bytes")
            denied = until_denied(lab, events, [cable])
            lossy = (streams.received("placed_bytes") - placed) / (lab.now - begun)
            lab.advance(settle)
            after = _goodput(lab, streams)
    streams.stop()
    lab.world.call("controller", "undeny", what=cable)
    return {
        "cable": cable,
        "direction": direction,
        "planes": fabric.planes,
        "before": round(before),
        "lossy": round(lossy),
        "after": round(after),
        "denied_after": denied,
    }


def _goodput(lab: Lab, streams: Streams) -> float:
    """Bytes placed per second over WINDOW."""
    begun, placed = lab.now, streams.received("placed_bytes")
    lab.advance(WINDOW)
    return (streams.received("placed_bytes") - placed) / (lab.now - begun)


def until_denied(lab: Lab, events: EventQueue, elements: Iterable[str]) -> float:
    """Let time pass until all elements are denied; return the seconds. RunError where that does not happen."""
    left, begun = set(elements), lab.now
    while lab.now < begun + DENIED_WITHIN:
        for _node, event in events.wait(begun + DENIED_WITHIN):
            left.discard(str(event.get("element")))
            if not left:
                return round(float(event["t"]) - begun, 2)
    raise RunError(f"Clustermapper did not deny {', '.join(sorted(left))} within {DENIED_WITHIN:g} s")
