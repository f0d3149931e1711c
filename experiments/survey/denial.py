"""Effect of denials: on goodput over a lossy cable, and on the losses of a job that starts on bad paths.

A NIC–T0 cable loses 5 % with its carrier up, which MRC alone cannot avoid. Clustermapper names the cable and has its
plane denied; goodput then should be that of the planes that are left.

At start-up some T0–T1 cables are silent before the first packet, and each QP loses packets until it knows. With
Clustermapper's denylist the same is known before: arXiv 2605.04333 §2.4 and Fig. 4 show both sides at scale.
"""

import random
from collections.abc import Iterable
from contextlib import closing
from itertools import product
from statistics import mean
from typing import Any

from mrclab.experiments.survey.cases import NIC_LOSS
from mrclab.experiments.survey.streams import Qp, Streams
from mrclab.lab.errors import RunError
from mrclab.lab.run.world import EventQueue
from mrclab.lab.session.lab import Lab
from mrclab.topo.cables.cablefaults import Direction
from mrclab.topo.model import Fabric

WINDOW = 8.0  # seconds over which goodput is measured
SETTLE_RTTS = 40
DENIED_WITHIN = 60.0  # seconds

BROKEN_SHARE = 0.15  # of all T0–T1 cables
QPS = 104  # at least, over all pairs
SECONDS = 30  # of traffic


def lossy_cable(lab: Lab, seed: int) -> dict[str, Any]:
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


# --- start-up with bad paths ------------------------------------------------------------------------------------------


def broken_cables(fabric: Fabric, seed: int) -> list[str]:
    """Draw the cables that are silent from the beginning."""
    rng = random.Random(f"start-up {seed}")
    names = [link.name for link in fabric.links if link.kind == "fabric"]
    return sorted(rng.sample(names, max(1, round(BROKEN_SHARE * len(names)))))


def bad_paths(fabric: Fabric, broken: list[str], source: str, destination: str) -> set[tuple[int, int]]:
    """The paths (plane, uplink) of a pair that cross a broken cable."""
    return {
        path
        for path in fabric.paths(source, destination)
        if any(link.name in broken for link in fabric.path_links(source, destination, *path))
    }


def start_up(lab: Lab, seed: int, mapped: bool) -> dict[str, Any]:
    """Run the experiment; `mapped`: the lab has Clustermapper."""
    fabric = lab.fabric
    broken = broken_cables(fabric, seed)
    with closing(lab.subscribe("controller", "denied")) as events:
        for name in broken:
            lab.inject(lab.fault_of("silent_drop", {"link": name}))
        denied_after = until_denied(lab, events, broken) if mapped else None
    begun = lab.now
    streams = Streams(lab, _pairs(fabric), qps=-(-QPS // len(_pairs(fabric))))
    totals = []
    for second in range(1, SECONDS + 1):
        lab.advance_to(begun + second)
        lost = streams.lost()
        totals.append(sum(lost))
    on_bad = _lost_on_bad(fabric, broken, streams)
    result = {
        "broken": broken,
        "cables": sum(link.kind == "fabric" for link in fabric.links),
        "denied_after": denied_after,
        "qps": len(lost),
        "lost_per_qp": lost,
        "lost_by_second": totals,
        "bad_in_set": round(mean(len(some) for some in on_bad.values()), 2),
        "lost_on_bad": sum(sum(some) for some in on_bad.values()),
        "trimmed": streams.received("trimmed_packets"),
        "packets": streams.received("placed_bytes") // fabric.spec.path_mtu,
    }
    streams.stop()
    return result


def _pairs(fabric: Fabric) -> list[tuple[str, str]]:
    """All ordered pairs of hosts in different T0 groups."""
    return [(one.name, other.name) for one, other in product(fabric.hosts, fabric.hosts) if one.group != other.group]


def _lost_on_bad(fabric: Fabric, broken: list[str], streams: Streams) -> dict[Qp, list[int]]:
    """For each QP the packets lost on each of its EVs, active and backup, that cross a broken cable."""
    bad = {pair: bad_paths(fabric, broken, *pair) for pair in _pairs(fabric)}
    found: dict[Qp, list[int]] = {qp: [] for qp in streams.qps}
    for qp, path, lost in streams.paths():
        if path in bad[qp.source, qp.destination]:
            found[qp].append(lost)
    return found
