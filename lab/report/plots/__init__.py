"""Pictures of a run as PNG files; the x axis is seconds after the traffic began. Nothing is drawn without data."""

from pathlib import Path

from mrclab.lab.measure.measures import Measures
from mrclab.lab.report.plots import library

library.load()

from mrclab.lab.report.plots import durations, evs, fabric, goodput, style, transport  # noqa: E402 - they load it
from mrclab.lab.report.plots.style import Picture  # noqa: E402

PICTURES: dict[str, tuple[str, Picture]] = {
    "goodput": ("Goodput at the receivers, stacked by plane, under the time line of the faults", goodput.by_plane),
    "training": ("Steps of training jobs", durations.steps),
    "flows": ("Goodput of every flow", goodput.by_flow),
    "evs": ("State of every EV of the senders' QPs", evs.ev_states),
    "losses": ("Packets declared lost, and retransmitted", transport.losses),
    "completions": ("Completion times", durations.completions),
    "paths": ("Traffic by path", goodput.by_path),
    "transport": ("The senders' QPs", transport.transport),
    "switches": ("The switches' ports", fabric.switches),
    "cpu": ("CPU of the busiest processes", fabric.cpu),
}
"""Name of the file → title, and what draws it."""


def draw(measures: Measures, directory: Path) -> dict[str, Path]:
    """Draw all pictures for which there is data; returns title → file."""
    made = {}
    for name, (title, picture) in PICTURES.items():
        path = directory / f"{name}.png"
        figure = picture(measures)
        if figure is None:
            path.unlink(missing_ok=True)  # of an earlier report
        else:
            style.save(figure, path)
            made[title] = path
    return made
