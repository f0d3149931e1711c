"""A fault on the time line: a cable is cut in the middle of a transfer; which EVs left use, and how soon?"""

from fabrics import FILE, TINY

import mrclab

scenario = mrclab.scenario(
    fabric=TINY,
    traffic=[FILE],
    faults=[{"name": "cut", "kind": "link_down", "link": "t0-p1-1/t1-p1-2", "at": "30% of file"}],
    expect=[{"kind": "integrity"}, {"kind": "retransmitted"}],
)
run = mrclab.run(scenario)
(cut,) = run.faults
print(f"{cut['text']} at {cut['begin'] * 1e6:.1f} µs; {sum(row['packets'] for row in run.losses)} packets lost")
for change in run.ev_transitions:
    after = (change["t"] - cut["begin"]) * 1e6
    print(
        f"{after:6.1f} µs later, {change['host']}: plane {change['plane']}, uplink {change['uplink']} {change['new']}"
    )
print(run.state)
