"""Makes the pictures of lessons that have figures, picture.svg in their folders: `make pictures`. Addresses, paths and
figures come from the fabric's model and from the simulator; the other pictures are drawn by hand.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mrclab.lab import history
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import virtual_world
from mrclab.sim.links.crossings import FEEDBACK
from mrclab.topo import srv6
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from drawing import WIDE, box, line, places, svg, text  # noqa: E402 - of the folder above

SPRAY = TransportSpec(ev_profile={"active_per_plane": 4, "backup_per_plane": 0})


def route() -> str:
    """Lesson 1: a path, and its address at each hop."""
    fabric = Fabric(FabricSpec())
    at, plane, uplink = places(fabric, WIDE), 2, 1
    path = {link.name for link in fabric.path_links("h1", "h3", plane, uplink)}
    strong = f' style="stroke:var(--p{plane});stroke-width:5"'
    cables = [
        line(*(at[end.node] for end in link.ends), more=strong if link.name in path else "")
        for link in sorted(fabric.links, key=lambda link: link.name in path)
    ]
    nodes = [box(x, y, name) for name, (x, y) in at.items()]
    address = fabric.outer_address("h1", "h3", srv6.ev(plane, uplink, 0))
    rows = [("h1 sends to", address)]
    for name in ("t0-p2-1", "t1-p2-1", "t0-p2-2"):
        address = srv6.shift_usid(address)
        rows.append((f"after {name}", address))
    legend = [
        text(170, 260 + 24 * n, who, "s") + text(300, 260 + 24 * n, srv6.text(value), "m l")
        for n, (who, value) in enumerate(rows)
    ]
    return svg(350, "A packet's way from h1 to h3, and its address at each hop", [*cables, *nodes, *legend])


def loads(transport: TransportSpec) -> tuple[Fabric, Counter[str]]:
    """Data packets over each uplink of the first T0, of four flows from under it to the hosts under the other."""
    fabric = Fabric(FabricSpec(planes=1, t0s=2, t1s=4, hosts_per_t0=4))
    with (
        virtual_world(fabric, seed=3, transport=transport) as world,
        LabSession(world, 1.0, threaded=False).open() as session,
    ):
        watch = world.watch()
        for n in range(1, 5):
            session.lab.start_traffic(
                {"kind": "write", "from": f"h{n}", "to": f"h{n + 4}", "size": "300 KiB", "name": f"f{n}"}
            )
        world.pause(1.0)
        session.step()
        found: Counter[str] = Counter()
        for each in watch.taken():
            link = fabric.links[each.half_link // 2]
            if each.kind != FEEDBACK and each.half_link % 2 == 0 and link.ends[0].node == "t0-p1-1":
                found[link.name] += 1
        watch.close()
    return fabric, found


def sprayed() -> str:
    """Lesson 4: four flows on four uplinks, by hash and sprayed."""
    made = []
    for left, name, transport in (
        (20, "RoCEv2, one path a flow", TransportSpec(kind="roce")),
        (470, "MRC, sprayed", SPRAY),
    ):
        fabric, found = loads(transport)
        most = max(found.values())
        made.append(text(left + 205, 20, name, "b"))
        for n, link in enumerate(each for each in fabric.links if each.ends[0].node == "t0-p1-1"):
            x, packets = left + 60 + 97 * n, found[link.name]
            height = 120 * packets / most
            made.append(f'<rect x="{x - 28}" y="{170 - height:g}" width="56" height="{height:g}" fill="var(--p1)"/>')
            made.append(text(x, 158 - height, str(packets), "s") + text(x, 186, f"T1 {n + 1}", "s"))
        made.append(line((left + 15, 171), (left + 395, 171)))
    made.append(text(450, 212, "data packets over each uplink, four flows of 300 KiB, from the simulator", "s"))
    return svg(225, "Four flows by hash on four uplinks, and sprayed over them", made)


def lost() -> tuple[float, list[tuple[float, str]]]:
    """Round trip, and the events of a path after its cable was cut, seconds after the cut."""
    fabric = Fabric(FabricSpec())
    cable = "t0-p1-1/t1-p1-2"
    with virtual_world(fabric, seed=1) as world, LabSession(world, 1.0, threaded=False).open() as session:
        session.lab.start_traffic({"kind": "stream", "from": "h1", "to": "h3", "size": "1 GiB", "name": "stream"})
        world.pause(0.5)
        seen = len(world.history_since(0))
        session.inject("link_down", {"link": cable, "name": "cut"})
        cut = world.now
        world.pause(0.15)
        session.clear("cut")
        cleared = world.now
        world.pause(2.5)
        records = list(history.parse(world.history_since(seen)))
    states = [each for each in records if each.kind == "ev.state" and (each["plane"], each["uplink"]) == (1, 2)]
    gone = next(each.t for each in states if each["new"] == "ASSUMED_BAD" and each.node == "h1")
    back = next(each.t for each in states if each["new"] == "GOOD" and each.node == "h1" and each.t > gone)
    events = [(0.0, "cut"), (gone - cut, "ASSUMED_BAD"), (cleared - cut, "cable back"), (back - cut, "GOOD again")]
    return fabric.base_rtt("h1", "h3"), events


def retired() -> str:
    """Lesson 5: a path after its cable was cut."""
    rtt, events = lost()
    end = events[-1][0] * 1.12

    def x(seconds: float) -> float:
        return 60 + 780 * seconds / end

    made = [line((40, 90), (x(end), 90))]
    spans: Sequence[tuple[float, float, str, str]] = (
        (events[0][0], events[1][0], "var(--bad)", "packets are lost"),
        (events[1][0], events[3][0], "var(--cable)", "out of use: probes alone"),
        (events[3][0], end, "var(--good)", "in use"),
    )
    for n, (a, b, colour, name) in enumerate(spans):
        made.append(f'<rect x="{x(a):g}" y="78" width="{x(b) - x(a):g}" height="24" fill="{colour}"/>')
        made.append(text((x(a) + x(b)) / 2 if n else x(a), 122, name, "s" if n else "s l"))
    for (seconds, name), y, anchor in zip(events, (58, 14, 36, 14), ("start", "start", "start", "end"), strict=True):
        made.append(line((x(seconds), y + 10), (x(seconds), 102)))
        label = f"{name}{f': {seconds * 1e3:.0f} ms = {seconds / rtt:.1f} RTT' if seconds else ''}"
        made.append(text(x(seconds), y, label, "l", f' style="text-anchor:{anchor}"'))
    made.append(text(450, 152, "one EV after its cable was cut for 150 ms, from the simulator", "s"))
    return svg(165, "A path after its cable was cut: lost, retired, probed, back", made)


PICTURES = {1: route, 4: sprayed, 5: retired}
"""Makers of pictures by lesson."""


def main() -> int:
    """Write them."""
    for number, make in PICTURES.items():
        next(HERE.glob(f"{number:02}-*")).joinpath("picture.svg").write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
