"""Start-up with bad paths: some T0–T1 cables are silent before the first packet; losses of each QP until it knows.

With Clustermapper's denylist the same is known before: arXiv 2605.04333 §2.4 and Fig. 4 show both sides at scale.
"""

import random
from contextlib import closing
from itertools import product
from statistics import mean
from typing import Any

from mrclab.experiments.survey.denial import until_denied
from mrclab.experiments.survey.streams import Qp, Streams
from mrclab.lab.session.lab import Lab
from mrclab.topo.model import Fabric

BROKEN_SHARE = 0.15  # of all T0–T1 cables
QPS = 104  # at least, over all pairs
SECONDS = 30  # of traffic


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


def run(lab: Lab, seed: int, mapped: bool) -> dict[str, Any]:
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
