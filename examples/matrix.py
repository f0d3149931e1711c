"""A connection matrix of uet-htsim: two flows, and a third that a trigger starts."""

import tempfile
from pathlib import Path

from fabrics import TINY

import mrclab

MATRIX = """\
Nodes 4
Connections 3
Triggers 1
0->2 id 1 start 0 size 500000 send_done_trigger 1
1->3 id 2 start 0 size 500000
2->0 id 3 trigger 1 size 250000
trigger id 1 oneshot
"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "steps.cm")
    file.write_text(MATRIX, encoding="utf-8")
    run = mrclab.run(mrclab.scenario(fabric=TINY, traffic=[{"name": "steps", "kind": "matrix", "file": str(file)}]))
for flow in run.flows:
    print(f"{flow['flow']}: {flow['began'] * 1e6:.1f} to {flow['ended'] * 1e6:.1f} µs, {flow['bytes']} bytes")
