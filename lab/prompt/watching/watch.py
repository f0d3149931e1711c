"""Summary of the lab in a terminal: goodput by plane, EV states, losses, faults, events; the page's frames as text.

With textual it has keys and an event log that scrolls; without, the same picture is drawn again and again.
"""

import json
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mrclab.lab.errors import LabError
from mrclab.lab.ui.sources import Source

PERIOD = 0.25  # seconds between two pictures
_BAR = 40  # characters at full rate
_EVENTS = 12
_FIRST = 10.0  # seconds until the first frame must be there
_COLOURS = {"GOOD": "green", "SKIP": "yellow", "STANDBY": "dim", "ASSUMED_BAD": "red", "PORT_DOWN": "magenta"}


def watch(source: Source, console: Console, as_json: bool = False) -> None:
    """Show frames until a key, Ctrl-C or the end of the lab; without a terminal, one frame."""
    if as_json or not console.is_terminal:
        frame = _first(source)
        if as_json:
            sys.stdout.write(json.dumps(frame) + "\n")
        else:
            console.print(picture(source.layout, frame, source.frame_log.events(0)[1][-_EVENTS:]))
        return
    try:
        from mrclab.lab.prompt.watching import watchapp  # noqa: PLC0415 - an extra has what it needs
    except ModuleNotFoundError:
        _redraw(source, console)
    else:
        watchapp.WatchApp(source).run()


def _first(source: Source) -> dict[str, Any]:
    until = time.monotonic() + _FIRST
    while not source.frame_log.last and time.monotonic() < until:
        time.sleep(PERIOD / 5)
    if not source.frame_log.last:
        raise LabError(f"the lab wrote no history within {_FIRST:g} seconds; `mrclab status` shows its state")
    return source.frame_log.last


def _redraw(source: Source, console: Console) -> None:
    layout = source.layout
    events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
    seen = 0
    with Screen(console=console, screen=True, auto_refresh=False) as screen:
        try:
            while source.outcome is None:
                seen, new = source.frame_log.events(seen)
                events.extend(new)
                if source.frame_log.last:
                    screen.update(picture(layout, source.frame_log.last, list(events)), refresh=True)
                time.sleep(PERIOD)
        except KeyboardInterrupt:
            return


def picture(layout: Mapping[str, Any], frame: Mapping[str, Any], events: list[dict[str, Any]]) -> RenderableType:
    """One frame as text."""
    return Group(goodput(layout, frame), Text(), qps(frame), Text(), state(frame), Text(), *map(event, events))


def goodput(layout: Mapping[str, Any], frame: Mapping[str, Any]) -> Table:
    """A bar for each plane."""
    table = Table.grid(padding=(0, 1))
    full = max(layout["line_rate"], 1.0) * len(layout["hosts"]) / 2
    for plane, value in frame["goodput"].items():
        share = min(value / full, 1.0)
        table.add_row(f"plane {plane}", Text("█" * round(_BAR * share), style="cyan"), f"{value / 1e6:8.2f} MB/s")
    return table


def qps(frame: Mapping[str, Any]) -> Table:
    """A line for each sending QP: how many of its EVs are in which state, and its round trip."""
    table = Table.grid(padding=(0, 2))
    for host, number, peer, _traffic, round_trip, _window in frame["qps"]:
        states = Counter(state for *_, state in frame["evs"][f"{host}/{number}"])
        counts = " ".join(f"[{_COLOURS.get(state, 'white')}]{state} {n}[/]" for state, n in sorted(states.items()))
        rtt = f"RTT {1e3 * round_trip:.3f} ms" if round_trip else ""
        table.add_row(escape(f"{host} → {peer or '?'} QP {number}"), counts, rtt)
    return table


def state(frame: Mapping[str, Any]) -> Text:
    """Losses, drops, faults, and Clustermapper's verdicts."""
    totals = ", ".join(f"{name} {count}" for name, count in frame["totals"].items())
    text = Text(f"packets: {totals}\n")
    text.append(f"cables down: {len(frame['down'])}; faults: {', '.join(frame['faults']) or 'none'}")
    if frame["verdicts"]:
        verdicts = ", ".join(f"{element} {word}" for element, word in frame["verdicts"].items())
        text.append(f"\nClustermapper: {verdicts}", style="red")
    return text


def event(record: Mapping[str, Any]) -> Text:
    """One line of the log."""
    style = "bold" if record["kind"].startswith("fault") else ""
    return Text(f"{record['t']:10.3f} {record['node']:>10}  {record['text']}", style=style)
