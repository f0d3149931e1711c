"""Views of the controller's responses in a terminal. Nothing here sends requests."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mrclab.lab.report.grid import grid
from mrclab.topo.input.sentences import several

_COLOURS = {"ready": "green", "verified": "green", "up": "green", "backup": "cyan", "unknown": "dim", "lossy": "yellow"}
_BAD = "red"
_SHOWN = 6  # names in one line before the rest is only counted

Answer = Mapping[str, Any]


def status(reply: Answer) -> RenderableType:
    """Response to `status`: state of switches, cables and agents, and denied elements."""
    verified = reply["state"] == "verified" and reply.get("seconds") is not None
    seconds = f" in {reply['seconds']:.1f} s" if verified else ""
    lines = [
        f"fabric    {_coloured(reply['state'])}{seconds}"
        + (f": {escape(reply['message'])}" if reply["message"] else ""),
        f"switches  {reply['switches_ready']} of {reply['switches']} ready{_unready(reply['by_switch'])}",
        f"cables    {reply['links_verified']} of {reply['links']} verified both ways",
        f"entries   {_entries(reply['wrong_entries'], reply['entries_unread'])}",
        f"agents    {_agents(reply['agents'], reply['version'], reply['agents_silent'])}",
    ]
    if not reply["denied"]:
        lines.append("denied    nothing")
    return Group(*map(_line, lines), *([_denials(reply["denied"])] if reply["denied"] else []))


def link_map(reply: Answer) -> RenderableType:
    """Response to `map`: faulty elements, and the state of every cable by the hosts' probes."""
    verdicts = [_verdict(verdict) for verdict in reply["verdicts"]] or ["[green]nothing is at fault[/]"]
    table = grid("cable", "state", "loss", "RTT", right=("loss", "RTT"))
    for name, link in reply["links"].items():
        loss = "–" if link["loss"] is None else f"{link['loss']:.1%}"
        rtt = "–" if link["rtt"] is None else f"{1000 * link['rtt']:.1f} ms"
        table.add_row(name, _coloured(link["state"]), loss, rtt)
    seen = f"{reply['reports']} reports, one per host every {reply['cycle']:g} s"
    rejected = f", {reply['rejected']} rejected" if reply["rejected"] else ""
    return Group(*map(_line, verdicts), table, _line(f"[dim]{seen}{rejected}[/]"))


def precheck(reply: Answer) -> RenderableType:
    """Response to `precheck`: one line per check, and the verdict."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for check in reply["checks"]:
        mark = "[green]ok[/]" if check["ok"] else f"[{_BAD}]no[/]"
        table.add_row(mark, check["name"], escape(check["detail"]))
    verdict = "[green]a job may start[/]" if reply["ok"] else f"[{_BAD}]a job should not start[/]"
    return Group(table, _line(verdict))


def denied(reply: Answer, word: str = "denied") -> str:
    """Response to `deny` or `undeny` in one sentence."""
    unknown = _unnotified(reply)
    if not reply["changed"]:
        return (
            f"{reply['element']} was {'denied already' if word == 'denied' else 'not denied'}; nothing changed{unknown}"
        )
    reached = f"every host{' but these' if unknown else ''}"
    return f"{reply['element']} is {word}; node configs of version {reply['version']} say so to {reached}{unknown}"


def undenied(reply: Answer) -> str:
    """Response to `undeny` in one sentence."""
    return denied(reply, "allowed again")


def drained(reply: Answer) -> str:
    """Response to `drain` in one sentence."""
    name, seconds = reply["switch"], reply["seconds"]
    if reply["drained"]:
        unknown = _unnotified(reply)
        return f"{name} is drained after {seconds:.1f} s: no QP uses it any more, and it may be rebooted{unknown}"
    if reply["unread"]:
        return f"{name} is denied; whether packets of QPs still cross it could not be read: it {reply['unread']}"
    return f"{name} is denied but still carried packets of QPs after {seconds:.1f} s; ask again before it is rebooted"


def undrained(reply: Answer) -> str:
    """Response to `undrain` in one sentence."""
    if others := reply["denied_by"]:
        return f"{reply['switch']} is no longer drained, but still denied by {' and '.join(others)}; undeny it, too"
    return f"{reply['switch']} carries traffic again after {reply['seconds']:.1f} s"


def _unnotified(reply: Answer) -> str:
    """Hosts that were not notified of a denial, appended to its sentence."""
    silent = [f"the agent of {name} {why}" for name, why in reply["unnotified"].items()]
    return f": {several(silent, _SHOWN)}" if silent else ""


def _line(markup: str) -> Text:
    return Text.from_markup(markup, overflow="fold")


def _coloured(state: str) -> str:
    return f"[{_COLOURS.get(state, _BAD)}]{state}[/]"


def _unready(by_switch: Mapping[str, Any]) -> str:
    odd = [f"{name} {_coloured(s['state'])}" for name, s in by_switch.items() if s["state"] != "ready"]
    silent = {name: s["error"] for name, s in by_switch.items() if s["state"] == "ready" and s["silent"]}
    odd += [f"{name} [{_BAD}]{escape(why or 'does not answer')}[/]" for name, why in silent.items()]
    return f": {several(odd, _SHOWN)}" if odd else ""


def _entries(wrong: int, unread: Mapping[str, str]) -> str:
    seen = f"[{_BAD}]{wrong} wrong[/]; `mrclab precheck` names them" if wrong else "as they should be"
    blind = [f"[{_BAD}]{name}[/]" for name in unread]
    return f"{seen} where they could be read; not read: {several(blind, _SHOWN)}" if unread else seen


def _agents(agents: Mapping[str, int], version: int, silent: Mapping[str, str]) -> str:
    late = [f"{name} [{_BAD}]{escape(why)}[/]" for name, why in silent.items()]
    agents = {name: used for name, used in agents.items() if name not in silent}
    late += [f"{name} [{_BAD}]not there[/]" for name, used in agents.items() if not used]
    late += [f"{name} still has version {used}" for name, used in agents.items() if used and used != version]
    there, every = sum(1 for used in agents.values() if used), len(agents) + len(silent)
    return f"{there} of {every} there, node configs of version {version}" + (
        f": {several(late, _SHOWN)}" if late else ""
    )


def _denials(denials: list[Answer]) -> Table:
    table = grid("denied", "what", "by", "because")
    for denial in denials:
        table.add_row(denial["element"], denial["kind"], denial["source"], escape(denial["reason"]) or "–")
    return table


def _verdict(verdict: Answer) -> str:
    what = f"{_coloured(verdict['state'])}: [bold]{verdict['element']}[/] loses {verdict['rate']:.0%} of probes"
    alternatives = verdict["alternatives"]
    return what + (f" (or {several(alternatives, _SHOWN)}, which carry the same probes)" if alternatives else "")
