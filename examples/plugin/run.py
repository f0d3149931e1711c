"""A run with the kinds of this package; `pip install examples/plugin` comes first."""

import mrclab

run = mrclab.run(
    mrclab.scenario(
        topology={"kind": "pair", "paths": 4},
        fabric={"link": {"rate": "100Gb/s", "delay": "600ns"}},
        traffic=[
            {"name": "file", "kind": "write", "from": "h1", "to": "h2", "size": "1 MiB"},
            {"name": "both", "kind": "mirror", "size": "64 KiB", "message": "4 KiB"},
        ],
        transport={
            "congestion_control": "aimd",
            "congestion_settings": {"decrease": 0.7},
            "path_selection": "unmarked",
            "path_settings": {"weight": 0.5},
            "scheduler": "newest",
        },
        faults=[
            {"name": "cut", "kind": "uplinks_down", "switch": "t0-p1-1", "at": "30% of file"},
            {
                "name": "runs",
                "kind": "loss",
                "link": "h1-p2",
                "model": {"kind": "runs", "length": 3, "every": 100},
                "at": "0s",
            },
        ],
        expect=[{"kind": "integrity"}, {"kind": "lost_share", "at_most": "30%"}],
    )
)
for row in run.faults:
    print(f"{row['text']}: {', '.join(row['links'])}")
for verdict in run.verdicts:
    print("PASS" if verdict.ok else "FAIL", verdict.kind, verdict.observed)
