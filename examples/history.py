"""Reading a history: a run keeps its result directory, which is read again later; records, tables, a picture."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from fabrics import FILE, TINY

import mrclab

CUT = {"name": "cut", "kind": "link_down", "link": "t0-p1-1/t1-p1-2", "at": "30% of file", "until": "80% of file"}

with tempfile.TemporaryDirectory() as folder:
    results = Path(sys.argv[1] if len(sys.argv) > 1 else folder)
    kept = mrclab.run(mrclab.scenario(fabric=TINY, traffic=[FILE], faults=[CUT]), results=results)
    run = mrclab.read(kept.directory)
    print("records:", Counter(run.records().column("kind")).most_common(5))
    for record in run.records("fault.begin", "fault.end"):
        print(f"{record['t'] * 1e6:6.1f} µs {record['kind']} {record['fields']['fault']}")
    picture = results / "goodput.pdf"
    run.plot.goodput().savefig(picture)
    print(f"goodput by plane drawn: {picture.stat().st_size > 0}")
