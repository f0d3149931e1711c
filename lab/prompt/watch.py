"""The lab at a glance in a terminal: goodput by plane, EV states, losses, faults, events; the page's frames as text."""

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mrclab.lab.ui.sources import Live

_PERIOD = 0.25  # seconds between two pictures
_BAR = 40  # characters at full rate
_EVENTS = 12
_COLOURS = {"GOOD": "green", "SKIP": "yellow", "STANDBY": "dim", "ASSUMED_BAD": "red", "PORT_DOWN": "magenta"}


def watch(source: Live, console: Console) -> None:
    """Show frames until Ctrl-C or the end of the lab."""
    layout = source.layout()
    events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
    seen = 0
    with Screen(console=console, screen=console.is_terminal, auto_refresh=False) as screen:
        try:
            while True:
                frames = source.frames(seen)
                seen += len(frames)
                for frame in frames:
                    events.extend(frame["events"])
                if frames:
                    screen.update(picture(layout, frames[-1], list(events)), refresh=True)
                if source.outcome() is not None:
                    return
                time.sleep(_PERIOD)
        except KeyboardInterrupt:
            return


def picture(layout: Mapping[str, Any], frame: Mapping[str, Any], events: list[dict[str, Any]]) -> RenderableType:
    """One frame as text."""
    parts: list[RenderableType] = [_goodput(layout, frame), Text(), _qps(frame), Text()]
    totals = ", ".join(f"{name} {count}" for name, count in frame["totals"].items())
    down = len(frame["down"])
    parts.append(Text(f"packets: {totals}; cables down: {down}; faults: {', '.join(frame['faults']) or 'none'}"))
    if frame["verdicts"]:
        told = ", ".join(f"{element} {state}" for element, state in frame["verdicts"].items())
        parts.append(Text(f"Clustermapper: {told}", style="red"))
    parts.append(Text())
    for event in events:
        style = "bold" if event["kind"].startswith("fault") else ""
        parts.append(Text(f"{event['t']:10.3f} {event['node']:>10}  {event['text']}", style=style))
    return Group(*parts)


def _goodput(layout: Mapping[str, Any], frame: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 1))
    full = max(layout["line_rate"], 1.0) * len(layout["hosts"]) / 2
    for plane, value in frame["goodput"].items():
        share = min(value / full, 1.0)
        table.add_row(f"plane {plane}", Text("█" * round(_BAR * share), style="cyan"), f"{value / 1e6:8.2f} MB/s")
    return table


def _qps(frame: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    for qp in frame["qps"]:
        states = Counter(state for *_, state in qp["evs"])
        told = " ".join(f"[{_COLOURS.get(state, 'white')}]{state} {n}[/]" for state, n in sorted(states.items()))
        rtt = f"RTT {1e3 * qp['rtt']:.3f} ms" if qp["rtt"] else ""
        table.add_row(escape(f"{qp['host']} → {qp['peer'] or '?'} QP {qp['qp']}"), told, rtt)
    return table
