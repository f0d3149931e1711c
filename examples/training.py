"""A training job in virtual time: its steps while a NIC port goes down for 100 µs."""

from fabrics import TINY

import mrclab

JOB = {
    "name": "job", "kind": "training", "hosts": "all", "parameters": 1.0e5, "layers": 2, "bucket": "100kB",
    "forward": "20us", "steps": 4,
}  # fmt: skip
scenario = mrclab.scenario(
    fabric=TINY,
    traffic=[JOB],
    faults=[{"name": "cut", "kind": "link_down", "link": "h1/t0-p1-1", "at": "30% of job", "until": "cut + 100us"}],
    expect=[{"kind": "integrity"}, {"kind": "qp_errors"}],
)
run = mrclab.run(scenario)
(cut,) = run.faults
print(f"{cut['text']} from {cut['begin'] * 1e6:.0f} to {cut['end'] * 1e6:.0f} µs")
for step in run.steps:
    print(f"step {step['step']}: {step['seconds'] * 1e6:.1f} µs, ended at {step['ended'] * 1e6:.0f} µs")
