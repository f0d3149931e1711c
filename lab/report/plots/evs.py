"""The state of every EV over time: a row each, coloured by state."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from mrclab.lab.measure.fabric.paths import OUT, EvKey, Span
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.traffic.rates import Path as EvPath
from mrclab.lab.report.palette import EV_STATES
from mrclab.lab.report.plots import style

_MAX_ROWS = 320
_PIXELS = 1600
_SEVERITY = {state: number for number, state in enumerate(EV_STATES, 1)}


def ev_states(measures: Measures) -> Figure | None:
    """EV × time; where there are too many EVs, those of QPs that had one taken out."""
    last = style.last_moment(measures)
    spans = measures.paths.spans(measures.start, last)
    choice = len({key[:2] for key in spans}) < len(spans)  # a transport without EVs has one path per QP
    if not choice and not measures.paths.changes:
        return None
    evs = measures.paths.sender_evs
    keys = chosen(spans, evs)
    if not keys:
        return None
    image = raster([spans[key] for key in keys], measures.start, last)
    figure, (axes,) = style.panels([min(0.4 + 0.19 * len(keys), 9.0)])
    extent = (0.0, last - measures.start, len(keys) - 0.5, -0.5)
    colours = ListedColormap(["#ffffff", *EV_STATES.values()])
    axes.imshow(image, aspect="auto", extent=extent, cmap=colours, vmin=0, vmax=len(EV_STATES), interpolation="nearest")
    _label_rows(axes, keys, evs)
    style.over_time([axes], measures, spans=False)
    axes.grid(visible=False)
    style.fault_lines(axes, measures, linewidth=1)
    used = {state for key in keys for *_, state in spans[key]}
    handles = [Patch(color=colour, label=state) for state, colour in EV_STATES.items() if state in used]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8, frameon=False, handlelength=1)
    if len(keys) < len(spans):
        axes.set_title(f"{len(keys)} of {len(spans)} EVs: QPs that had one taken out come first")
    return figure


def chosen(spans: Mapping[EvKey, list[Span]], evs: Mapping[EvKey, EvPath]) -> list[EvKey]:
    """The rows of the picture, by host, QP and path; the QPs that matter most where there are too many."""
    taken_out: dict[tuple[str, int], int] = {}
    for (host, qp, _), bars in spans.items():
        taken_out[host, qp] = taken_out.get((host, qp), 0) + sum(state in OUT for *_, state in bars)
    found: list[EvKey] = []
    for host, qp in sorted(taken_out, key=lambda key: (-taken_out[key], _natural(key[0]), key[1])):
        rows = sorted((key for key in spans if key[:2] == (host, qp)), key=lambda key: (evs[key], key[2]))
        if found and len(found) + len(rows) > _MAX_ROWS:
            break
        found += rows
    return sorted(found, key=lambda key: (_natural(key[0]), key[1], evs[key], key[2]))


def raster(rows: list[list[Span]], begin: float, end: float) -> "np.typing.NDArray[np.uint8]":
    """One line of pixels per EV; a state shorter than a pixel still has one, and the worst state wins."""
    image = np.zeros((len(rows), _PIXELS), dtype=np.uint8)
    scale = _PIXELS / max(end - begin, 1e-9)
    for number, spans in enumerate(rows):
        line = image[number]
        for first, last, state in spans:
            a = min(int((first - begin) * scale), _PIXELS - 1)
            b = max(a + 1, round((last - begin) * scale))
            np.maximum(line[a:b], _SEVERITY.get(state, 0), out=line[a:b])
        _undo_bleeding(line, spans, begin, scale)
    return image


def _undo_bleeding(line: "np.typing.NDArray[np.uint8]", spans: list[Span], begin: float, scale: float) -> None:
    """Long spans keep their own pixels: only the one at their edge may show the neighbour."""
    for first, last, state in spans:
        a, b = int((first - begin) * scale) + 1, int((last - begin) * scale)
        if b > a:
            line[a:b] = _SEVERITY.get(state, 0)


def _label_rows(axes: Axes, keys: list[EvKey], evs: Mapping[EvKey, EvPath]) -> None:
    """Every row by its path where they can be read; QPs apart by a line and their name."""
    starts = [n for n, key in enumerate(keys) if n == 0 or key[:2] != keys[n - 1][:2]]
    for start in starts[1:]:
        axes.axhline(start - 0.5, color="white", linewidth=1.5 if len(keys) < 150 else 0.6)
    if len(keys) <= 44:
        names = []
        for n, key in enumerate(keys):
            plane, uplink = evs[key]
            name = f"p{plane}" + (f" T1 {uplink}" if uplink else "")
            names.append(f"{key[0]} QP {key[1]}  {name}" if n in starts else name)
        axes.set_yticks(range(len(keys)), names, fontsize=7.5)
        return
    step = max(1, len(starts) // 40)
    places = starts[::step]
    axes.set_yticks(places, [f"{keys[n][0]} QP {keys[n][1]}" for n in places], fontsize=7)


def _natural(host: str) -> tuple[str, int]:
    digits = "".join(c for c in host if c.isdigit())
    return host.rstrip("0123456789"), int(digits or 0)
