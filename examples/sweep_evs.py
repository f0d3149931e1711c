"""A sweep: completion time of a transfer over a lossy cable against the EVs per plane, over five seeds."""

from statistics import mean, stdev

from fabrics import FILE, TINY

import mrclab

base = mrclab.scenario(
    fabric=TINY | {"t1s": 4},
    traffic=[FILE],
    faults=[{"name": "gray", "kind": "loss", "link": "t0-p1-1/t1-p1-2", "rate": "5%", "at": "0s"}],
)
for evs in (1, 2, 4):
    scenario = base.with_values({"transport.ev_profile": {"active_per_plane": evs, "backup_per_plane": 0}})
    micros = [mrclab.run(scenario, seed=seed).seconds * 1e6 for seed in range(1, 6)]
    print(
        f"{evs} EVs per plane: {mean(micros):6.1f} µs ± {stdev(micros):.1f} (mean and deviation of {len(micros)} seeds)"
    )
