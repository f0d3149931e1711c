"""Value of denying: a NIC–T0 cable loses 5 % with its carrier up, which MRC alone cannot repair.

Clustermapper names the cable and has its plane denied; goodput then should be that of the planes that are left.
"""

import random
from contextlib import closing
from typing import Any

from mrclab.experiments.survey.cases import NIC_LOSS
from mrclab.experiments.survey.streams import Streams
from mrclab.lab.errors import RunError
from mrclab.lab.run.world import EventQueue, World
from mrclab.topo.cables.cablefaults import EVERY_PACKET, Direction, Loss

WINDOW = 8.0  # seconds over which goodput is measured
SETTLE_RTTS = 40
WRITES = 128  # of 4 MiB, posted at once: more than the experiment can send
DENIED_WITHIN = 60.0  # seconds


def run(world: World, seed: int) -> dict[str, Any]:
    """Goodput before the fault, with it, and after the denial, as bytes per second; and when it was denied."""
    fabric = world.fabric
    rng = random.Random(f"healing {seed}")
    source, destination = fabric.hosts[0], fabric.hosts[-1]
    victim = rng.choice([source, destination])
    cable = victim.port(rng.randint(1, fabric.planes)).link
    direction: Direction = rng.choice(("up", "down"))
    settle = SETTLE_RTTS * fabric.base_rtt(source.name, destination.name)
    streams = Streams(world, [(source.name, destination.name)], writes=WRITES)
    streams.start()
    with closing(world.subscribe(["controller"], ["denied"])) as events:
        world.pause(settle)
        before = _goodput(world, streams)
        begun = world.now
        world.injector.inject([(cable, Loss(NIC_LOSS))], match=EVERY_PACKET, direction=direction)
        lossy, denied = _until_denied(world, streams, events, cable, begun)
        world.pause(settle)
        after = _goodput(world, streams)
    streams.stop()
    world.call("controller", "undeny", what=cable)
    return {
        "cable": cable,
        "direction": direction,
        "planes": fabric.planes,
        "before": round(before),
        "lossy": round(lossy),
        "after": round(after),
        "denied_after": denied,
    }


def _goodput(world: World, streams: Streams, seconds: float = WINDOW) -> float:
    """Bytes placed per second over a while."""
    begun, placed = world.now, streams.placed()
    world.pause(seconds)
    return (streams.placed() - placed) / (world.now - begun)


def _until_denied(world: World, streams: Streams, events: EventQueue, cable: str, begun: float) -> tuple[float, float]:
    """Goodput from the fault to the denial, and the seconds between them."""
    placed = streams.placed()
    while world.now < begun + DENIED_WITHIN:
        for _node, event in events.wait(begun + DENIED_WITHIN):
            if event.get("element") == cable:
                seconds = event["t"] - begun
                return (streams.placed() - placed) / (world.now - begun), round(seconds, 2)
    raise RunError(f"Clustermapper did not deny {cable} within {DENIED_WITHIN:g} s")
