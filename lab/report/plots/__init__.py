"""Pictures of a run as PNG files; the x axis is seconds after the traffic began. Nothing is drawn without data."""

from pathlib import Path

from mrclab.lab.measure.measures import Measures
from mrclab.lab.report.plots import library

library.load()

from mrclab.lab.report.plots import evs, fabric, goodput, losses, style, training, transport  # noqa: E402 - they load it
from mrclab.lab.report.plots.style import Picture  # noqa: E402

PICTURES: dict[str, tuple[str, Picture]] = {
    "Goodput at the receivers, stacked by plane, under the time line of the faults": ("goodput.png", goodput.by_plane),
    "Steps of training jobs": ("training.png", training.steps),
    "Goodput of every flow": ("flows.png", goodput.by_flow),
    "State of every EV of the senders' QPs": ("evs.png", evs.ev_states),
    "Packets declared lost, and retransmitted": ("losses.png", losses.losses),
    "Completion times": ("completions.png", losses.completions),
    "Traffic by path": ("paths.png", goodput.by_path),
    "The senders' QPs": ("transport.png", transport.transport),
    "The switches' ports": ("switches.png", fabric.switches),
    "CPU of the busiest processes": ("cpu.png", fabric.cpu),
}


def draw(measures: Measures, directory: Path) -> dict[str, Path]:
    """Draw all pictures for which there is data; returns title → file."""
    made = {}
    for title, (name, picture) in PICTURES.items():
        path = directory / name
        figure = picture(measures)
        if figure is None:
            path.unlink(missing_ok=True)  # of an earlier report
        else:
            style.save(figure, path)
            made[title] = path
    return made
