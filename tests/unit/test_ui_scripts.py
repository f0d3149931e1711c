"""Scripts of the page that need no browser, run by Node.js: the line about faults, and the units of figures."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mrclab.lab.ui.model import PageModel
from mrclab.topo import spec
from mrclab.topo.model import Fabric

STATIC = Path(__file__).parents[2] / "lab" / "ui" / "static"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js")


def evaluated(script: str, name: str, given: Any) -> Any:
    """Return what an expression of `given` yields, with the names of one of the page's scripts."""
    code = f"import * as it from {json.dumps((STATIC / script).as_uri())};\nconst given = {json.dumps(given)};\n"
    code += f"console.log(JSON.stringify({name}));"
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", code], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def frame(t: float, *events: dict[str, Any]) -> dict[str, Any]:
    totals = {"lost": 0, "retransmitted": 0}
    return {"t": t, "qps": [], "evs": {}, "goodput": {"1": 8.0}, "means": [16, 9], "events": events, "totals": totals}


def test_faults_that_overlap_are_told_apart():
    begun = {"kind": "fault.begin", "fault_kind": "link_down", "text": "cut"}
    events = [{**begun, "t": 1, "fault": "cut"}, {**begun, "t": 2, "fault": "second", "fault_kind": "loss"}]
    events.append({"kind": "fault.end", "t": 3, "fault": "second", "text": "second"})
    frames = [frame(0), *(frame(each["t"], each) for each in events)]
    one, both, after = evaluated("narrator.js", "[1, 2, 3].map((at) => it.narrate(given, at))", frames)
    assert one == "Cable cut."
    assert both == "Cable loses packets. Still in force, with effects of its own: cut."
    assert after == "Cable no longer loses packets. Still in force, with effects of its own: cut."


@pytest.mark.parametrize(
    ("link", "rate", "trip"),
    [({"rate": "100 Gb/s", "delay": "1us"}, "50.00 Gb/s", "15.0 µs"), ({"rate_pps": 500}, "6250.00 MB/s", "0.0150 ms")],
)
def test_absolute_figures_have_the_units_of_the_report(link, rate, trip):
    layout = PageModel(Fabric(spec.load({"planes": 2, "link": link}))).layout()
    code = "(() => { const u = new it.Units(); u.fit(given); u.toggle();"
    code += "return [u.rate(6.25e9 * u.rateScale), u.trip(0.015 * u.tripScale)]; })()"
    assert evaluated("units.js", code, layout) == [rate, trip]
