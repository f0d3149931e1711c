"""A campaign: seeds times values on worker processes, in a folder from which the same call resumes."""

import sys
import tempfile

from fabrics import TINY

import mrclab


def main(folder: str) -> None:
    """Halve the T1s of a permutation below a folder, and print the slowest flow of each run."""
    scenario = mrclab.scenario(
        fabric=TINY,
        traffic=[{"name": "jobs", "kind": "permutation", "size": "1 MiB"}],
        expect=[{"kind": "completion", "traffic": "jobs", "of": "flows", "percentile": 100, "at_most": "1ms"}],
    )
    rows = mrclab.campaign(scenario, folder, seeds=[1, 2], sweep={"fabric.t1s": [1, 2]}, workers=1)
    for row in rows:
        value = row["verdicts"]["completion"]["value"]
        print(f"seed {row['seed']}, {row['values']}: {row['state']}, {value * 1e6:.1f} µs")


if __name__ == "__main__":  # worker processes import this file
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
