"""What denying is worth: a NIC–T0 cable loses 5 % with its carrier up, which MRC alone cannot heal.

Clustermapper names the cable and has its plane denied; goodput then should be that of the planes that are left.
"""

import random
import time
from typing import Any

from mrclab.experiments.survey.cases import NIC_LOSS, Direction
from mrclab.experiments.survey.streams import Streams
from mrclab.lab.command import operations
from mrclab.lab.errors import RunError
from mrclab.lab.run.session import Session
from mrclab.rpc.client import Client
from mrclab.topo.cables.cablefaults import Loss

WINDOW = 8.0  # seconds over which goodput is measured
SETTLE_RTTS = 40
WRITES = 128  # of 4 MiB, posted at once: more than the experiment can send
DENIED_WITHIN = 60.0  # seconds


def run(session: Session, seed: int) -> dict[str, Any]:
    """Goodput before the fault, with it, and after the denial, as bytes per second; and when it was denied."""
    fabric = session.fabric
    rng = random.Random(f"healing {seed}")
    source, destination = fabric.hosts[0], fabric.hosts[-1]
    victim = rng.choice([source, destination])
    cable = victim.port(rng.randint(1, fabric.planes)).link
    direction: Direction = rng.choice(("up", "down"))
    settle = SETTLE_RTTS * fabric.base_rtt(source.name, destination.name)
    streams = Streams(session, [(source.name, destination.name)], writes=WRITES)
    streams.start()
    with Client(session.run_dir / "controller.sock") as events:
        events.subscribe(["denied"])
        time.sleep(settle)
        before = _goodput(streams)
        begun = time.monotonic()
        session.emulation.cables.inject(cable, Loss(NIC_LOSS), direction=direction)
        lossy, denied = _until_denied(streams, events, cable, begun)
        time.sleep(settle)
        after = _goodput(streams)
    streams.stop()
    operations.ask(session, "undeny", what=cable)
    return {
        "cable": cable,
        "direction": direction,
        "planes": fabric.planes,
        "before": round(before),
        "lossy": round(lossy),
        "after": round(after),
        "denied_after": denied,
    }


def _goodput(streams: Streams, seconds: float = WINDOW) -> float:
    """Bytes placed per second over a while."""
    begun, placed = time.monotonic(), streams.placed()
    time.sleep(seconds)
    return (streams.placed() - placed) / (time.monotonic() - begun)


def _until_denied(streams: Streams, events: Client, cable: str, begun: float) -> tuple[float, float]:
    """Goodput from the fault to the denial, and the seconds between them."""
    placed = streams.placed()
    for event in events.events(DENIED_WITHIN):
        if event["element"] == cable:
            seconds = event["t"] - begun
            return (streams.placed() - placed) / (time.monotonic() - begun), round(seconds, 2)
    raise RunError(f"Clustermapper did not deny {cable} within {DENIED_WITHIN:g} s")
