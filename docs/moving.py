"""Makes docs/packets.svg: the frames of the simulator around a cut cable, slowed down; `make pictures`.

Every dot is a frame of the run, where it was at that time. CSS alone moves them: it plays where no script may run.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mrclab.lab import history
from mrclab.lab.history import Record
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import virtual_world
from mrclab.sim.links.crossings import FEEDBACK, Crossing
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

sys.path.insert(0, str(Path(__file__).parent))
from drawing import Place, Places, ends, picture, places

TO = Path(__file__).parent / "packets.svg"
CABLE = "t0-p1-1/t1-p1-2"
SETTLED = 2.0  # seconds of traffic before the picture begins
BEFORE, AFTER = 0.045, 0.115  # seconds that it shows
SLOWER = 110  # times
_SENT = 1e-4  # seconds by which the record of a retransmission may differ from the frame's departure
WIDE = 1000
ROWS = 62, 172, 290


class Journey(NamedTuple):
    """Path of one frame: `stops` are nodes, with the seconds since it was sent; `again`: it is a retransmission."""

    began: float
    stops: tuple[tuple[str, float], ...]
    plane: int
    kind: int
    arrived: bool
    again: bool


def record() -> tuple[Fabric, float, list[Crossing], list[Record]]:
    """Run a stream, cut a cable; returns the fabric, when that was, all crossings, and the history since then."""
    fabric = Fabric(FabricSpec())
    with virtual_world(fabric, seed=1) as world, LabSession(world, 1.0, threaded=False).open() as session:
        session.lab.start_traffic({"kind": "stream", "from": "h1", "to": "h3", "size": "1 GiB", "name": "stream"})
        world.pause(SETTLED - BEFORE)
        session.step()
        watch = world.watch()
        world.pause(SETTLED - world.now)
        seen = len(world.history_since(0))
        session.inject("link_down", {"link": CABLE, "name": "cut"})
        cut = world.now
        world.pause(AFTER)
        taken = watch.taken()
        watch.close()
        return fabric, cut, taken, list(history.parse(world.history_since(seen)))


def journeys(fabric: Fabric, crossings: Iterable[Crossing], again: Mapping[int, float]) -> list[Journey]:
    """Frames from host to host or to where they were lost; those of which the beginning was not seen are left out."""
    ways: dict[int, list[Crossing]] = defaultdict(list)
    for crossing in crossings:
        ways[id(crossing.frame)].append(crossing)
    found = []
    for hops in ways.values():
        links = [fabric.links[hop.half_link // 2] for hop in hops]
        froms = [link.ends[hop.half_link % 2].node for hop, link in zip(hops, links, strict=True)]
        last = links[-1].ends[1 - hops[-1].half_link % 2].node
        if not froms[0].startswith("h") or (hops[-1].arrived and not last.startswith("h")):
            continue
        began = hops[0].entered
        times = [round(hop.entered - began, 4) for hop in hops]
        stops = (*zip(froms, times, strict=True), (last, round(hops[-1].left - began, 4)))
        read = hops[0].frame.read
        retransmitted = hops[0].kind != FEEDBACK and read is not None and began >= again.get(read.psn, math.inf) - _SENT
        found.append(Journey(began, stops, links[0].plane, hops[0].kind, hops[-1].arrived, retransmitted))
    return found


def drawn(fabric: Fabric, cut: float, crossings: Sequence[Crossing], records: Sequence[Record]) -> str:
    """Return the picture."""
    lost = [each for each in records if each.kind == "packet.lost"]
    resent = [each for each in records if each.kind == "packet.retx"]
    retired = next(each.t for each in records if each.kind == "ev.state" and each["new"] == "ASSUMED_BAD")
    start, span = cut - BEFORE, BEFORE + AFTER
    loop = span * SLOWER
    at = places(fabric, WIDE, ROWS)

    def percent(seconds: float) -> str:
        return f"{100 * seconds / span:.2f}".rstrip("0").rstrip(".") + "%"

    frames: dict[tuple[object, ...], str] = {}
    motions, dots = {}, []
    for journey in sorted(journeys(fabric, crossings, {each["psn"]: each.t for each in resent})):
        ended = journey.began + journey.stops[-1][1] - start
        if journey.began < start or ended > span - 0.002:
            continue
        key = (journey.stops, journey.arrived)
        if key not in frames:
            name = frames[key] = f"f{len(frames)}"
            motions[name] = motion(journey, at, percent)
        kind = "a" if journey.kind == FEEDBACK else "d"
        wait = f"{(journey.began - start) * SLOWER:.2f}".rstrip("0").rstrip(".")
        dots.append((f"{kind} {frames[key]} q{journey.plane}{' r' if journey.again else ''}", wait))
    rtts = (retired - cut) / fabric.spec.base_rtt(fabric.spec.longest)
    late = f"{(retired - cut) * 1e3:.0f} ms later, {rtts:.1f} round trips"
    again = "all" if len(resent) >= len(lost) else len(resent)
    cables = ends(fabric, at)
    broken = cables.pop(CABLE)
    middle, stumps = gap(*broken)
    return picture(
        "packets", loop=f"{loop:g}s", cut=percent(cut - start), retired=percent(retired - start), motions=motions,
        dots=dots, cables=cables.values(), broken=broken, middle=middle, stumps=stumps, nodes=at, late=late,
        lost=f"{len(lost)} packets were lost, {again} retransmitted (outlined)",
    )  # fmt: skip


def motion(journey: Journey, at: Places, percent: Callable[[float], str]) -> str:
    """Key frames of one path, from place to place; a lost frame falls from the middle of its cable."""
    steps = []
    stops = [(*at[name], seconds) for name, seconds in journey.stops]
    if not journey.arrived:
        (x, y, t), (u, v, end) = stops[-2:]
        stops[-1] = ((x + u) / 2, (y + v) / 2, (t + end) / 2)
    for x, y, seconds in stops:
        steps.append(f"{percent(seconds)}{{opacity:1;transform:translate({x:.0f}px,{y:.0f}px)}}")
    x, y, seconds = stops[-1]
    if not journey.arrived:
        fallen = seconds + 0.006
        steps.append(f"{percent(fallen)}{{opacity:.9;fill:var(--bad);transform:translate({x:.0f}px,{y + 90:.0f}px)}}")
        seconds = fallen
    after = percent(seconds + 0.0001)
    return "".join(steps) + f"{after},to{{opacity:0}}"


def gap(a: Place, b: Place) -> tuple[Place, list[tuple[Place, Place]]]:
    """Return the middle of the cable that is cut, and what is left of it at both ends."""
    middle = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
    part = 1 - 26 / math.dist(a, middle)
    return middle, [((x, y), (x + part * (middle[0] - x), y + part * (middle[1] - y))) for x, y in (a, b)]


def main() -> int:
    """Write the picture."""
    text = drawn(*record())
    TO.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TO.name}: {len(text) / 1e3:.1f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
