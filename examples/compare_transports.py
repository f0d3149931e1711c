"""MRC and RoCEv2 in the same fabric, with the same traffic and the same fault: one T0 uplink loses 1 % of its packets.

RoCEv2 gets the queues that go with it (docs/roce.md); everything else is equal.
"""

from statistics import mean

from fabrics import TINY

import mrclab

base = mrclab.scenario(
    fabric=TINY,
    traffic=[{"name": "shuffle", "kind": "permutation", "size": "512 KiB"}],
    faults=[{"name": "gray", "kind": "loss", "link": "t0-p1-1/t1-p1-2", "rate": "1%", "at": "0s"}],
)
for kind in ("mrc", "roce"):
    runs = [mrclab.run(base.with_values({"transport.kind": kind}), seed=seed) for seed in (1, 2, 3)]
    slowest = [max(run.flows.column("seconds")) * 1e6 for run in runs]
    lost = [sum(run.losses.column("packets")) for run in runs]
    print(
        f"{kind:4} slowest flow {mean(slowest):8.1f} µs ({min(slowest):.1f} to {max(slowest):.1f}), packets lost {lost}"
    )
