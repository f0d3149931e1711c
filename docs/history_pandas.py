"""A run's history in pandas: percent-cells for a notebook editor, or a script: RESULT_DIR [PICTURE]."""

# %% The run
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from mrclab.lab import history

directory = Path(sys.argv[1] if len(sys.argv) > 1 else max(Path("results").iterdir()))
picture = Path(sys.argv[2]) if len(sys.argv) > 2 else directory / "pandas.png"
records = history.load(directory / "history.jsonl")

# %% Every sample of every NIC port, a row each; counters only grow
ports = pd.DataFrame(
    {"t": record.t, "host": record.node, **port} for record in records.of("sample") for port in record["ports"]
)

# %% Goodput by plane: what arrived between two samples, over the time between them
placed = ports.pivot_table(index="t", columns=["host", "port"], values="placed_bytes").ffill().fillna(0)
by_plane = placed.T.groupby(level="port").sum().T
seconds = by_plane.index.to_series().diff()
goodput = by_plane.diff().div(seconds, axis=0) / 1e6

# %% Losses, EV transitions and faults
losses = pd.DataFrame({"t": r.t, "host": r.node, **r.data} for r in records.of("packet.lost"))
changes = pd.DataFrame({"t": r.t, "host": r.node, **r.data} for r in records.of("ev.state"))
faults = pd.DataFrame({"t": r.t, "kind": r.kind, **r.data} for r in records.of("fault.begin", "fault.end"))
if not changes.empty:
    print(changes.groupby(["host", "plane", "uplink", "new"]).size().rename("times"))  # noqa: T201

# %% Draw
figure, axes = plt.subplots(figsize=(11, 4))
goodput.rolling(3, min_periods=1).mean().plot.area(ax=axes, linewidth=0)
for row in faults.itertuples():
    axes.axvline(row.t, color="black", linestyle="-" if row.kind == "fault.begin" else ":")
if not losses.empty:
    axes.plot(losses["t"], [0] * len(losses), "|", color="red")
axes.set(xlabel="seconds", ylabel="MB/s at the receivers, by plane", title=directory.name)
figure.savefig(picture, dpi=110, bbox_inches="tight")
