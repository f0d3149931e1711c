"""Faults by population: one in four T0-T1 cables loses packets in bursts; which ones, the seed draws."""

from fabrics import TINY

import mrclab

BURSTS = {"kind": "gilbert_elliott", "rate": "2%", "burst": 8}
scenario = mrclab.scenario(
    fabric=TINY | {"t1s": 4},
    traffic=[{"name": "shuffle", "kind": "permutation", "size": "512 KiB"}],
    faults=[
        {"name": "gray", "kind": "population", "share": "25%", "of": "t0-t1", "at": "0s",
         "fault": {"kind": "loss", "model": BURSTS}},
    ],
    expect=[{"kind": "integrity"}],
)  # fmt: skip
for seed in (1, 2):
    run = mrclab.run(scenario, seed=seed)
    cables = sorted({cable for fault in run.faults for cable in fault["links"]})
    lost = sum(run.losses.column("packets"))
    slowest = max(run.flows.column("seconds")) * 1e6
    print(f"seed {seed}: {lost} packets lost on {len(cables)} cables, slowest flow {slowest:.1f} µs: {run.state}")
    print("  ", ", ".join(cables))
