"""Makes the picture of each lesson, picture.svg in its folder: `make pictures`. Addresses, paths and figures come from
the fabric's model and from the simulator.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
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
from drawing import WIDE, Places, box, line, places, svg, text  # noqa: E402 - of the folder above

SPRAY = TransportSpec(ev_profile={"active_per_plane": 4, "backup_per_plane": 0})


def drawn(fabric: Fabric, at: Places, strong: Mapping[str, str] | None = None) -> list[str]:
    """A fabric: cables, some of them strong in a colour, and nodes."""
    strong = strong or {}
    cables = sorted(fabric.links, key=lambda link: link.name in strong)
    made = [
        line(at[link.ends[0].node], at[link.ends[1].node], "w",
             f' style="stroke:{strong[link.name]};stroke-width:5"' if link.name in strong else "")
        for link in cables
    ]  # fmt: skip
    return made + [box(x, y, name) for name, (x, y) in at.items()]


def route() -> str:
    """Lesson 1: a path, and its address at each hop."""
    fabric = Fabric(FabricSpec())
    at, plane, uplink = places(fabric, WIDE), 2, 1
    links = {link.name: f"var(--p{plane})" for link in fabric.path_links("h1", "h3", plane, uplink)}
    address = fabric.outer_address("h1", "h3", srv6.ev(plane, uplink, 0))
    rows = [("h1 sends to", address)]
    for name in ("t0-p2-1", "t1-p2-1", "t0-p2-2"):
        address = srv6.shift_usid(address)
        rows.append((f"after {name}", address))
    legend = [
        text(170, 260 + 24 * n, who, "s") + text(300, 260 + 24 * n, srv6.text(value), "m l")
        for n, (who, value) in enumerate(rows)
    ]
    return svg(350, "A packet's way from h1 to h3, and its address at each hop", [*drawn(fabric, at, links), *legend])


def shift() -> str:
    """Lesson 2: the list before and after."""
    before = ["fcbb:bb00", "2101", "1102", "2102", "3101", "0", "0"]
    after = [before[0], *before[2:], "0"]
    xs = [180, *(310 + 106 * n for n in range(6))]
    made = []
    for y, row, name in ((45, before, "as it came"), (155, after, "as it leaves")):
        made.append(text(10, y, name, "s l"))
        made += [box(x, y, word, 138 if n == 0 else 98, 34) for n, (x, word) in enumerate(zip(xs, row, strict=True))]
    made += [line((xs[n], 64), (xs[n - 1], 136), "w", ' marker-end="url(#a)"') for n in range(2, 7)]
    made.append(text(xs[1], 88, "this switch: gone", "s") + text(xs[6], 182, "zeros come in", "s"))
    arrow = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="var(--soft)"/></marker></defs>'
    )
    return svg(200, "A list of uSIDs before and after the shift", [arrow, *made])


def programmed() -> str:
    """Lesson 3: a switch between control plane and neighbours."""
    fabric = Fabric(FabricSpec())
    switch = fabric.switch("t1-p1-2")
    made = [line((450, 62), (450, 100)), line((450, 190), (250, 238)), line((450, 190), (650, 238))]
    made += [box(450, 44, "your controller: P4Runtime", 240, 34), box(450, 145, "", 520, 90)]
    made += [text(450, 118, f"{switch.name}, uSID {switch.usid:x}", "b")]
    made += [text(450, 145, f"my_usid: fcbb:bb00:{switch.usid:x} → shift_usid", "m")]
    made += [text(450, 170, "usid_fib: fcbb:bb00:2101 → port 1, …:2102 → port 2", "m")]
    made += [box(x, 252, switch.port(n).peer.node) + text(x, 222, f"port {n}", "s") for n, x in ((1, 250), (2, 650))]
    return svg(275, "A switch between its control plane and its neighbours", made)


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


def queues() -> str:
    """Lesson 6: a queue that trims, and one that drops."""
    made = []
    for left, name, trims in ((0, "trimming on", True), (450, "trimming off", False)):
        made.append(text(left + 225, 20, name, "b"))
        made += [line((left + 40, y), (left + 160, 95)) for y in (50, 80, 110, 140)]
        made += [box(left + 36, y, f"h{n}", 40, 24) for n, y in enumerate((50, 80, 110, 140), 1)]
        made += [
            f'<rect x="{left + 170 + 22 * n}" y="80" width="18" height="30" rx="2" fill="var(--p1)"/>' for n in range(6)
        ]
        made.append(f'<rect x="{left + 164}" y="72" width="140" height="46" rx="4" fill="none" stroke="var(--soft)"/>')
        made += [line((left + 304, 95), (left + 392, 95)), box(left + 412, 95, "h7", 40, 24)]
        if trims:
            made += [
                f'<rect x="{left + 318 + 24 * n}" y="52" width="8" height="14" rx="1" fill="var(--ink)"/>'
                for n in range(3)
            ]
            made.append(text(left + 240, 150, "the packet that finds it full is cut to its headers:", "s"))
            made.append(text(left + 240, 168, "they go first, and h7 asks for it at once", "s"))
        else:
            made.append(line((left + 160, 95), (left + 178, 140), "x"))
            made.append(text(left + 240, 150, "the packet that finds it full is lost:", "s"))
            made.append(text(left + 240, 168, "the sender has to find out", "s"))
    return svg(185, "A queue that trims, and one that drops", made)


def shared() -> str:
    """Lesson 7: the elements that failing probes share."""
    fabric = Fabric(FabricSpec(planes=1, t0s=2, t1s=3, hosts_per_t0=2))
    at = places(fabric, 620, left=140)
    bad = "t0-p1-1/t1-p1-2"
    strong = {link.name: "var(--p1)" for host in ("h1", "h2") for link in fabric.path_links(host, "h3", 1, 2)}
    made = drawn(fabric, at, {**strong, bad: "var(--bad)"})
    made.append(
        text(450, 250, "probes over T1 2 fail, others return: the cable that all that fail share is named", "s")
    )
    return svg(265, "Probes that fail share one cable", made)


def tested() -> str:
    """Lesson 8: three runs of a test."""
    made = []
    rows = (("as it is", "passes", "var(--good)"), ("without the fault", "must fail", "var(--bad)"),
            ("with damaged bytes", "must fail", "var(--bad)"))  # fmt: skip
    for n, (name, outcome, colour) in enumerate(rows):
        y = 35 + 52 * n
        made += [line((190, y), (330, y)), line((610, y), (690, y)), box(100, y, "test_my_lab.py", 170, 34)]
        made += [box(470, y, f"the lab, {name}", 280, 34), text(770, y, outcome, "b", f' style="fill:{colour}"')]
    return svg(175, "A test run three times: as it is, without the fault, with damaged bytes", made)


def moved() -> str:
    """Lesson 9: a flow moves away from a path that marks."""
    fabric = Fabric(FabricSpec(planes=1, t0s=2, t1s=2, hosts_per_t0=2))
    made = []
    for left, name, free in ((0, "before the mark", 1), (450, "after it", 2)):
        at = places(fabric, 420, (55, 145, 235), left + 15)
        pinned = {link.name: "var(--p4)" for link in fabric.path_links("h2", "h4", 1, 1)}
        ours = {link.name: "var(--p1)" for link in fabric.path_links("h1", "h3", 1, free)}
        made += [*drawn(fabric, at, {**pinned, **ours}), text(left + 225, 16, name, "b")]
        if free == 1:
            made.append(f'<circle cx="{at["t0-p1-1"][0]:g}" cy="{at["t0-p1-1"][1] - 26:g}" r="7" fill="var(--ink)"/>')
    made.append(
        text(450, 275, "free (blue) and pinned share a cable; its queue marks (●), and free takes its other path", "s")
    )
    return svg(290, "A flow moves away from the path that marks its packets", made)


def pictures() -> dict[int, str]:
    """All pictures by lesson."""
    makers = (route, shift, programmed, sprayed, retired, queues, shared, tested, moved)
    return {number: make() for number, make in enumerate(makers, 1)}


def main() -> int:
    """Write them."""
    for number, picture in pictures().items():
        next(HERE.glob(f"{number:02}-*")).joinpath("picture.svg").write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
