"""Frames that cross cables are seen from outside: which were lost, and without a trace in the run itself."""

import importlib.util
import re
from pathlib import Path

from mrclab.lab import history
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import virtual_world
from mrclab.sim.links.crossings import DATA
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

DOCS = Path(__file__).parents[2] / "docs"
CABLE = "t0-p1-1/t1-p1-2"


def cut(*, watched: bool):
    fabric = Fabric(FabricSpec())
    with virtual_world(fabric, seed=1) as world, LabSession(world, 1.0, threaded=False).open() as session:
        watch = world.watch() if watched else None
        session.lab.start_traffic({"kind": "write", "from": "h1", "to": "h3", "size": "2 MiB", "name": "file"})
        world.pause(0.1)
        session.inject("link_down", {"link": CABLE, "name": "cut"})
        world.pause(0.2)
        seen = watch.taken() if watch else []
        if watch:
            watch.close()
            world.pause(0.05)
            assert not watch.taken()
        else:
            world.pause(0.05)
        return fabric, seen, world.history_since(0)


def test_what_is_seen_lost_is_what_the_hosts_miss_and_the_history_is_the_same_as_unseen():
    fabric, seen, lines = cut(watched=True)
    assert lines == cut(watched=False)[2]
    records = list(history.parse(lines))
    place = fabric.link(CABLE).index
    lost = [crossing for crossing in seen if not crossing.arrived]
    assert lost
    assert {crossing.half_link // 2 for crossing in lost} == {place}
    missed = [record for record in records if record.kind == "packet.lost" and record.t < 0.3]
    assert sum(crossing.kind == DATA for crossing in lost) == len(missed)
    assert all(crossing.left > crossing.entered for crossing in seen)


def test_the_moving_picture_has_every_packet_that_was_lost_and_no_script():
    spec = importlib.util.spec_from_file_location("moving", DOCS / "moving.py")
    moving = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(moving)
    fabric, when, crossings, records = moving.record()
    text = moving.drawn(fabric, when, crossings, records)
    kept = (DOCS / "packets.svg").read_text()
    for picture in (text, kept):
        assert len(picture.encode()) <= 60_000
        assert "<script" not in picture
        assert "prefers-color-scheme:dark" in picture
    falling = set(re.findall(r"@keyframes (f\d+)\{(?:(?!@keyframes).)*?fill:var\(--bad\)", text))
    data = sum(text.count(f'class="d {name} ') for name in falling)
    missed = sum(record.kind == "packet.lost" for record in records)
    assert data == missed > 0
    assert text.count(' r"') >= missed // 2  # retransmitted, and drawn so where the loop does not cut them off
