"""Makes the pictures of lessons that have figures, picture.svg in their folders: `make pictures`. Addresses, paths and
figures come from the fabric's model and from the simulator; the other pictures are drawn by hand.
"""

import sys
from collections import Counter
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
from drawing import WIDE, ends, picture, places  # noqa: E402 - of the folder above

SPRAY = TransportSpec(ev_profile={"active_per_plane": 4, "backup_per_plane": 0})


def route() -> str:
    """Lesson 1: a path, and its address at each hop."""
    fabric = Fabric(FabricSpec())
    at, plane, uplink = places(fabric, WIDE), 2, 1
    cables = ends(fabric, at)
    path = [cables.pop(link.name) for link in fabric.path_links("h1", "h3", plane, uplink)]
    address = fabric.outer_address("h1", "h3", srv6.ev(plane, uplink, 0))
    rows = [("h1 sends to", srv6.text(address))]
    for name in ("t0-p2-1", "t1-p2-1", "t0-p2-2"):
        address = srv6.shift_usid(address)
        rows.append((f"after {name}", srv6.text(address)))
    return picture("route", cables=cables.values(), path=path, plane=plane, nodes=at, rows=rows)


def loads(transport: TransportSpec) -> list[int]:
    """Data packets over each uplink of the first T0, of four flows from under it to the hosts under the other."""
    fabric = Fabric(FabricSpec(planes=1, t0s=2, t1s=4, hosts_per_t0=4))
    uplinks = [link.name for link in fabric.links if link.ends[0].node == "t0-p1-1"]
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
        sent = (each for each in watch.taken() if each.kind != FEEDBACK and each.half_link % 2 == 0)
        found = Counter(fabric.links[each.half_link // 2].name for each in sent)
        watch.close()
    return [found[name] for name in uplinks]


def sprayed() -> str:
    """Lesson 4: four flows on four uplinks, by hash and sprayed."""
    roce = TransportSpec(kind="roce")
    sides = [(20, "RoCEv2, one path a flow", loads(roce)), (470, "MRC, sprayed", loads(SPRAY))]
    return picture("sprayed", sides=sides)


def retired() -> str:
    """Lesson 5: a path after its cable was cut."""
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
    rtt = fabric.base_rtt("h1", "h3")
    return picture("retired", rtt=rtt, retired=gone - cut, cleared=cleared - cut, back=back - cut)


PICTURES = {1: route, 4: sprayed, 5: retired}
"""Makers of pictures by lesson."""


def main() -> int:
    """Write them."""
    for number, make in PICTURES.items():
        next(HERE.glob(f"{number:02}-*")).joinpath("picture.svg").write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
