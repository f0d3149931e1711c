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
from drawing import Places, box, line, places, svg

TO = Path(__file__).parent / "packets.svg"
CABLE = "t0-p1-1/t1-p1-2"
SETTLED = 2.0  # seconds of traffic before the picture begins
BEFORE, AFTER = 0.045, 0.115  # seconds that it shows
SLOWER = 110  # times
_SENT = 1e-4  # seconds by which the record of a retransmission may differ from the frame's departure
WIDE, HIGH = 1000, 388
ROWS = 62, 172, 290
SWITCH, HOST = (62, 26), (70, 28)

STYLE = """
text{font-size:12.5px}.k{font-size:21px;font-weight:600}.c{font-size:16px}
.d,.a{opacity:0;animation:0s linear infinite}
"""
STILL = (
    "@media(prefers-reduced-motion:reduce){*{animation:none!important}.last,.cut{opacity:1!important}.first{opacity:0}}"
)


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
    """The picture."""
    lost = [each for each in records if each.kind == "packet.lost"]
    resent = [each for each in records if each.kind == "packet.retx"]
    retired = next(each.t for each in records if each.kind == "ev.state" and each["new"] == "ASSUMED_BAD")
    start, span = cut - BEFORE, BEFORE + AFTER
    loop = span * SLOWER
    at = places(fabric, WIDE, ROWS)

    def percent(seconds: float) -> str:
        return f"{100 * seconds / span:.2f}".rstrip("0").rstrip(".") + "%"

    frames: dict[tuple[object, ...], str] = {}
    shapes, dots = [], []
    for journey in sorted(journeys(fabric, crossings, {each["psn"]: each.t for each in resent})):
        ends = journey.began + journey.stops[-1][1] - start
        if journey.began < start or ends > span - 0.002:
            continue
        key = (journey.stops, journey.arrived)
        if key not in frames:
            name = frames[key] = f"f{len(frames)}"
            shapes.append(f"@keyframes {name}{{{motion(journey, at, percent)}}}.{name}{{animation-name:{name}}}")
        kind = "a" if journey.kind == FEEDBACK else "d"
        wait = f"{(journey.began - start) * SLOWER:.2f}".rstrip("0").rstrip(".")
        more = f' class="{kind} {frames[key]} q{journey.plane}{" r" if journey.again else ""}"'
        dots.append(f'<circle{more} style="animation-delay:{wait}s"/>')
    planes = "".join(f".q{n}{{fill:var(--p{n})}}" for n in range(1, fabric.planes + 1))
    rules = (
        f".d,.a{{animation-duration:{loop:g}s}}.d{{r:5px}}.a{{r:2.6px}}.r{{stroke:var(--ink);stroke-width:2.5}}{planes}"
        f".v{{animation:{loop:g}s step-end infinite}}"
    )
    cut_at, retired_at = percent(cut - start), percent(retired - start)
    whole = (
        f"@keyframes up{{0%{{opacity:1}}{cut_at}{{opacity:0}}}}@keyframes down{{0%{{opacity:0}}{cut_at}{{opacity:1}}}}"
        f"@keyframes mid{{0%{{opacity:0}}{cut_at}{{opacity:1}}{retired_at}{{opacity:0}}}}"
        f"@keyframes end{{0%{{opacity:0}}{retired_at}{{opacity:1}}}}"
        "@keyframes pulse{from{r:12px;opacity:.8}to{r:30px;opacity:0}}"
        ".up{animation-name:up}.cut{opacity:0;animation-name:down}.mid{opacity:0;animation-name:mid}.last{opacity:0;animation-name:end}"
        ".pulse{fill:none;stroke:var(--bad);stroke-width:3;animation:pulse 1.4s ease-out infinite}"
    )
    late = (retired - cut) * 1e3
    rtts = (retired - cut) / fabric.spec.base_rtt(fabric.spec.longest)
    counts = (
        f"{len(lost)} packets were lost, {'all' if len(resent) >= len(lost) else len(resent)} retransmitted (outlined)"
    )
    words = [
        (
            "up first",
            "h1 sends to h3, and every packet takes its own path",
            "4 planes × 2 uplinks; small dots acknowledge",
        ),
        ("mid", "A cable is cut", "h1 does not know yet"),
        ("last", f"{late:.0f} ms later, {rtts:.1f} round trips, h1 has left that path", f"{counts}; the others go on"),
    ]
    captions = "".join(
        f'<text class="k v {name}" x="500" y="338">{title}</text>'
        f'<text class="s c v {name}" x="500" y="366">{text}</text>'
        for name, title, text in words
    )
    names = "".join(
        f'<text class="s" x="{(n + 0.5) * WIDE / fabric.planes:g}" y="22" font-weight="600">plane {n + 1}</text>'
        for n in range(fabric.planes)
    )
    style = f"{STYLE}{rules}{whole}{''.join(shapes)}{STILL}"
    return svg(HIGH, TITLE, [names, cables(fabric, at), *dots, nodes(at), captions], WIDE, style)


TITLE = "Packets of one transfer on all paths of the fabric while a cable is cut, from the simulator, slowed down"


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


def cables(fabric: Fabric, at: Places) -> str:
    """All cables; the one that is cut also with its gap."""
    found = []
    for link in fabric.links:
        (x, y), (u, v) = (at[end.node] for end in link.ends)
        if link.name != CABLE:
            found.append(line((x, y), (u, v)))
            continue
        dx, dy = (u - x) / math.dist((x, y), (u, v)), (v - y) / math.dist((x, y), (u, v))
        mid = (x + u) / 2, (y + v) / 2
        ends = [(mid[0] - 26 * dx, mid[1] - 26 * dy), (mid[0] + 26 * dx, mid[1] + 26 * dy)]
        stumps = "".join(line(*stump, "") for stump in zip(((x, y), (u, v)), ends, strict=True))
        cross = f'<path d="M{mid[0] - 10:g} {mid[1] - 10:g}l20 20m0 -20l-20 20"/>'
        found.append(
            f'{line((x, y), (u, v), "w v up")}<g class="v cut">'
            f'<g stroke="var(--bad)" stroke-width="5" stroke-linecap="round">{stumps}{cross}</g>'
            f'<circle class="pulse" cx="{mid[0]:g}" cy="{mid[1]:g}"/></g>'
        )
    return "".join(found)


def nodes(at: Places) -> str:
    """All switches and hosts."""
    return "".join(box(x, y, name, *(HOST if name.startswith("h") else SWITCH)) for name, (x, y) in at.items())


def main() -> int:
    """Write the picture."""
    text = drawn(*record())
    TO.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TO.name}: {len(text) / 1e3:.1f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
