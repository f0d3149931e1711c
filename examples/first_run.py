"""First run: write 1 MiB from host to host in virtual time, and look at the result."""

from fabrics import FILE, TINY

import mrclab

run = mrclab.run(mrclab.scenario(fabric=TINY, traffic=[FILE]), seed=1)
print(run)
for verdict in run.verdicts:
    print("PASS" if verdict.ok else "FAIL", verdict.kind)
(flow,) = run.flows
print(f"{flow['flow']}: {flow['seconds'] * 1e6:.1f} µs, {flow['goodput'] * 8e-9:.1f} Gb/s")
for row in run.samples:
    print(f"plane {row['plane']} from {row['t'] * 1e6:.1f} µs: {row['goodput'] * 8e-9:.1f} Gb/s")
