"""Commands that show: nodes, cables, paths, EVs, tables, counters, faults, traffic; one probe hop by hop."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rich.console import Group
from rich.markup import escape

from mrclab.controller.provisioning import intent
from mrclab.lab.command.display import views
from mrclab.lab.errors import RunError
from mrclab.lab.prompt.registry import COMMANDS, LOCAL, UNTYPED, Answer, all_kinds, command, rows, unknown
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.report.grid import grid
from mrclab.lab.scenario import reference
from mrclab.lab.scenario.units import show_bytes, show_rate
from mrclab.topo import srv6
from mrclab.topo.input.sentences import nearest
from mrclab.topo.model import Fabric, Host, Link, Switch

_COUNTED = {"sent": "tx_packets", "marked": "ecn_marked", "trimmed": "trimmed"}
LOOK_S = 1.0  # seconds in which switches and agents must respond
PROBE_TIMEOUT = 1.0  # seconds, or as many of virtual time


@command(
    "help [COMMAND] [KIND]", "all commands; one; or a kind of fault or traffic with its fields: help fault loss", most=2
)
def help_(_session: LabSession, arguments: Sequence[str]) -> Answer:
    """List all commands, or show one, or one kind."""
    if not arguments:
        made = grid("command", "does", fold=True)
        for each in COMMANDS.values():
            made.add_row(escape(each.usage), escape(each.meaning))
        for usage, meaning in LOCAL.items():
            made.add_row(escape(usage), escape(meaning))
        return Answer(made, {**{each.name: each.meaning for each in COMMANDS.values()}, **LOCAL})
    name, *kinds = arguments
    if kinds and name in all_kinds():
        return _kind(name, kinds[0])
    local = {usage.split()[0]: (usage, meaning) for usage, meaning in LOCAL.items()}
    if name in local:
        usage, meaning = local[name]
        return Answer(escape(f"{usage}\n{meaning}"), {"usage": usage, "meaning": meaning})
    if name not in COMMANDS:
        raise ValueError(unknown(name))
    found = COMMANDS[name]
    known = all_kinds().get(name)
    more = " ".join(filter(None, (found.more, f"Kinds: {', '.join(known)}." if known is not None else "")))
    response = {"usage": found.usage, "meaning": found.meaning, "more": more}
    return Answer(escape("\n".join(filter(None, response.values()))), response)


def _kind(name: str, kind: str) -> Answer:
    """A kind of fault or traffic with its fields."""
    models = all_kinds()[name]
    if kind not in models:
        raise ValueError(f"no kind of {name} is called {kind!r}; {nearest(kind, list(models))}")
    about = " ".join((models[kind].__doc__ or "").split())
    known = [each._asdict() for each in reference.fields(models[kind]) if each.name not in UNTYPED | {"name"}]
    entries = sorted(known, key=lambda each: not each["needed"])
    made = grid("field", "value", "default", "", fold=True)
    for each in entries:
        default = "needed" if each["needed"] else str(each["default"])
        cells = (str(each["name"]), str(each["value"]).replace(", see below", ""), default, str(each["meaning"]))
        made.add_row(*(escape(cell.replace("`", "")) for cell in cells))
    note = "name=NAME may be given to all; docs/scenario-reference.md says more"
    return Answer(Group(escape(about), made, note), {"kind": kind, "about": about, "fields": entries})


@command("status", "switches, cables, hosts, denials, faults and traffic")
def status(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Return the status of everything."""
    response = session.ask("status", LOOK_S, ask=LOOK_S)
    lines = [f"faults    {', '.join(session.faults) or 'none'}"]
    lines.append(f"traffic   {', '.join(each.name for each in session.lab.active) or 'none'}")
    if session.speed is not None:
        lines.append(f"time      {session.world.now:.6f} s of virtual time, {session.speed:g} s per second")
    return Answer(Group(views.status(response), escape("\n".join(lines))), {**response, "faults": session.faults})


@command("nodes", "switches and hosts")
def nodes(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Every node, by kind."""
    response = {"hosts": [host.name for host in session.world.fabric.hosts]}
    for switch in session.world.fabric.switches:
        response.setdefault(switch.tier, []).append(switch.name)
    return Answer("\n".join(f"{kind:6}{' '.join(names)}" for kind, names in response.items()), response)


@command("net", "every node with its ports and their far ends")
def net(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Ports and their far ends."""
    fabric = session.world.fabric
    ports = {node.name: {port.interface: port.peer.interface for port in node.ports} for node in all_nodes(fabric)}
    text = "\n".join(f"{name}  " + "  ".join(f"{a}:{b}" for a, b in ends.items()) for name, ends in ports.items())
    return Answer(text, ports)


@command("links", "every cable and its faults")
def links(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Cables."""
    degraded = session.down()
    entries = [
        {"cable": link.name, "plane": link.plane, "faults": ", ".join(degraded.get(link.name, [])) or "–"}
        for link in session.world.fabric.links
    ]
    return Answer(rows(("cable", "plane", "faults"), entries), {"links": entries})


@command("map", "Clustermapper's map: health of every cable, and faulty elements (after mrclab up --mapper)")
def link_map(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Clustermapper's map."""
    response = session.ask("map")
    return Answer(views.link_map(response), response)


@command("paths HOST HOST", "every path between two hosts: its uSIDs hop by hop, and its state", least=2)
def paths(session: LabSession, arguments: Sequence[str]) -> Answer:
    """Paths with the addresses that name them."""
    source, destination = _two_hosts(session.world.fabric, arguments)
    fabric, degraded = session.world.fabric, session.down()
    states = {(row["plane"], row["uplink"]): row["state"] for row in _rows_to(session, source, destination)}
    entries = []
    for plane, uplink in fabric.paths(source, destination):
        crossed = fabric.path_links(source, destination, plane, uplink)
        entry = {
            "plane": plane,
            "uplink": uplink,
            "address": srv6.text(fabric.outer_address(source, destination, srv6.ev(plane, uplink, 0))),
            "hops": [f"{usid:04x} {name}" for usid, name in _hops(fabric, source, destination, plane, uplink)],
            "state": states.get((plane, uplink), "unused"),
            "faults": [name for link in crossed for name in degraded.get(link.name, [])],
        }
        entries.append(entry)
    faulty = ["faults"] * any(entry["faults"] for entry in entries)
    made = grid("plane", "uplink", "destination address", "hop by hop", "state", *faulty, fold=True)
    for entry in entries:
        made.add_row(
            str(entry["plane"]), str(entry["uplink"] or "–"), str(entry["address"]), " → ".join(entry["hops"]),
            str(entry["state"]), *[", ".join(entry["faults"]) or "–" for _ in faulty],
        )  # fmt: skip
    return Answer(made, {"source": source, "destination": destination, "paths": entries})


@command("evs HOST", "state of every EV of a host's QPs, of its last finished traffic too", least=1)
def evs(session: LabSession, arguments: Sequence[str]) -> Answer:
    """EVs of a host."""
    host = session.world.fabric.host(arguments[0]).name
    found = _call(session, host, "stats").get("paths", [])
    entries = [{**row, "EV": f"{row['ev']:08x}", "QP": row["qp"]} for row in found]
    for entry in entries:
        entry["sent"], entry["lost"] = entry.get("sent_packets", 0), entry.get("lost_packets", 0)
    columns = ("QP", "EV", "plane", "uplink", "state", "sent", "lost")
    shown = rows(columns, entries, ("sent", "lost")) if entries else f"{host} has sent nothing yet"
    return Answer(shown, {"host": host, "evs": found})


@command(
    "trace HOST HOST [EV]",
    "one probe over one path, hop by hop",
    "EV is hexadecimal as `evs` has it, or PLANE/UPLINK of `paths` as 1/2; without it the first path is taken.",
    least=2,
    most=3,
)
def trace(session: LabSession, arguments: Sequence[str]) -> Answer:
    """Send one EV probe and show how each hop changes its address. `queue` is the depth at the output port; the
    counters include all packets in that time.
    """
    fabric = session.world.fabric
    source, destination = _two_hosts(fabric, arguments[:2])
    plane, uplink = _path(fabric, source, destination, arguments[2] if len(arguments) > 2 else "")
    ev = srv6.ev(plane, uplink, srv6.ev_tag(0))
    before = _ports(session)
    result = probe(session, source, destination, [ev])[0]
    after = _ports(session)
    with session.lock:
        depths = session.world.depths()
    entries = []
    address = fabric.outer_address(source, destination, ev)
    for switch, entered, left in _switches(fabric, source, destination, plane, uplink):
        shifted = srv6.shift_usid(address)
        entries.append({
            "switch": switch.name, "in": entered, "out": left, "before": srv6.text(address),
            "after": srv6.text(shifted), "queue": depths.get(switch.name, {}).get(_number(switch, left), 0),
            **{name: after.get(left, {}).get(name, 0) - before.get(left, {}).get(name, 0) for name in _COUNTED},
        })  # fmt: skip
        address = shifted
    columns = ("switch", "in", "out", "before", "after", "queue", *_COUNTED)
    rtt = result["rtt"]
    verdict = f"answered after {1000 * rtt:.3f} ms" if rtt is not None else "no answer"
    line = f"{source} → {destination}, plane {plane}, uplink {uplink or '–'}, EV {ev:08x}: {verdict}"
    shown = [{**each, **{way: str(each[way]).rpartition("-")[2] for way in ("in", "out")}} for each in entries]
    made = rows(columns, shown, ("in", "out", "queue", *_COUNTED))
    return Answer(Group(line, made), {"ev": ev, "rtt": rtt, "hops": entries})


@command("pingall", "an EV probe over every path between all pairs of hosts")
def pingall(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Every path of every pair."""
    fabric = session.world.fabric
    lost: list[dict[str, Any]] = []
    sent = 0
    for source in fabric.hosts:
        for destination in fabric.hosts:
            if source is destination:
                continue
            known = fabric.paths(source.name, destination.name)
            values = [srv6.ev(plane, uplink, srv6.ev_tag(0)) for plane, uplink in known]
            response = probe(session, source.name, destination.name, values)
            sent += len(values)
            lost += [
                {"source": source.name, "destination": destination.name, "plane": path[0], "uplink": path[1]}
                for path, row in zip(known, response, strict=True)
                if row["rtt"] is None
            ]
    line = f"{sent - len(lost)} of {sent} paths answer"
    made = rows(("source", "destination", "plane", "uplink"), lost) if lost else None
    return Answer(Group(line, made) if made else line, {"sent": sent, "lost": lost})


@command("tables SWITCH", "table entries of a switch, and those that differ from the intended ones", least=1)
def tables(session: LabSession, arguments: Sequence[str]) -> Answer:
    """Table entries."""
    fabric = session.world.fabric
    switch = fabric.switch(arguments[0])
    entries = [
        {"table": entry.table, "entry": intent.describe(fabric, switch, entry)}
        for entry in intent.entries(fabric, switch)
    ]
    audited = session.ask("audit", switch=switch.name)
    wrong, unread = audited["entries"], audited["unread"].get(switch.name, "")
    if unread:
        line = f"not read back: {switch.name} {unread}; these are the entries that it should have"
    else:
        line = "\n".join(f"wrong: {text}" for text in wrong) or "read back: all as they should be"
    response = {"entries": entries, "wrong": wrong, "unread": unread}
    return Answer(Group(rows(("table", "entry"), entries), escape(line)), response)


@command("counters [SWITCH]", "packets dropped by switches, by reason; of one switch also by port", most=1)
def counters(session: LabSession, arguments: Sequence[str]) -> Answer:
    """Switch counters."""
    response = session.ask("counters")["switches"]
    every = [switch.name for switch in session.world.fabric.switches]
    names = [session.world.fabric.switch(arguments[0]).name] if arguments else every
    lines = []
    for name in names:
        if name not in response:
            lines.append(f"{name}: not read, since it did not answer")
            continue
        drops = {reason: count for reason, count in response[name].get("drops", {}).items() if count}
        lines.append(f"{name}: " + (", ".join(f"{reason} {n}" for reason, n in drops.items()) or "nothing dropped"))
        for number, port in response[name].get("ports", {}).items() if arguments else ():
            lines.append(f"  port {number}: in {port.get('rx_packets', 0)}, out {port.get('tx_packets', 0)} packets")
    return Answer("\n".join(lines), {name: response.get(name) for name in names})


@command("faults", "faults in force; docs/faults.md lists every kind and its fields")
def faults(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Faults in force, and errors of background work."""
    active = session.faults
    errors, session.errors[:] = list(session.errors), []
    lines = [f"{name}: {text}" for name, text in active.items()] or ["none"]
    return Answer(escape("\n".join([*lines, *errors])), {"faults": active, "errors": errors})


@command("flows", "running and finished traffic")
def flows(session: LabSession, _arguments: Sequence[str]) -> Answer:
    """Background traffic."""
    with session.lock:
        entries = [_flow(session, name) for name in session.lab.workloads]
    shown = [
        {**each, "done": f"{each['done']:.0%}", "bytes": show_bytes(each["bytes"]),
         "goodput": "–" if each["goodput"] is None else show_rate(each["goodput"])}
        for each in entries
    ]  # fmt: skip
    columns = ("name", "kind", "done", "bytes", "goodput", "state")
    return Answer(rows(columns, shown, ("done", "bytes")) if shown else "none yet", {"flows": entries})


def _flow(session: LabSession, name: str) -> dict[str, Any]:
    """Return the done share, payload bytes received, and bytes per second of the lab's clock."""
    running = session.lab.workloads[name]
    began, ended, done = running.began, running.ended, running.acked
    seconds = (ended or session.world.now) - began if began is not None else 0.0
    share = running.share(session.world.now)
    if ended is not None and running.outcome.get("error"):  # the share reached
        whole = running.size or running.entry.seconds
        share = min((done if running.size else seconds) / whole, 0.9999) if whole else 0.0
    return {
        "name": name, "kind": running.entry.kind_name, "done": round(share, 6), "bytes": done,
        "goodput": round(done / seconds, 3) if seconds > 0 else None, "state": running.state,
    }  # fmt: skip


# --- what these share -----------------------------------------------------------------------------------------------


def all_nodes(fabric: Fabric) -> list[Host | Switch]:
    """Hosts, then switches."""
    return [*fabric.hosts, *fabric.switches]


def probe(session: LabSession, source: str, destination: str, values: Sequence[int]) -> list[dict[str, Any]]:
    """Results of one batch of EV probes, in order."""
    batch = _call(session, source, "probe_evs", peer=destination, evs=list(values), timeout=PROBE_TIMEOUT)["batch"]

    def response() -> list[dict[str, Any]] | None:
        try:
            return list(_call(session, source, "poll_probes", batch=batch)["results"])
        except RunError:  # not yet
            return None

    found = session.wait_until(response, 3 * PROBE_TIMEOUT)
    if found is None:
        raise ValueError(f"{source} gave no result of its probes")
    return found


def _call(session: LabSession, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
    with session.lock:
        return session.world.call(node, op, **arguments)


def _ports(session: LabSession) -> dict[str, dict[str, int]]:
    """Packets that each switch port has sent, marked and trimmed, by interface."""
    fabric = session.world.fabric
    return {
        fabric.switch(name).port(int(number)).interface: {
            short: int(port.get(counter, 0)) for short, counter in _COUNTED.items()
        }
        for name, response in session.ask("counters")["switches"].items()
        for number, port in response.get("ports", {}).items()
    }


def _number(switch: Switch, interface: str) -> str:
    return next(str(port.number) for port in switch.ports if port.interface == interface)


def _two_hosts(fabric: Fabric, arguments: Sequence[str]) -> tuple[str, str]:
    source, destination = (fabric.host(each).name for each in arguments)
    if source == destination:
        raise ValueError(f"{source} cannot reach itself over the fabric; name two hosts")
    return source, destination


def _rows_to(session: LabSession, source: str, destination: str) -> list[dict[str, Any]]:
    """Return the paths of a host's QPs to another."""
    response = _call(session, source, "stats")
    address = session.world.fabric.host(destination).address
    own = {qp["qp"] for qp in response.get("qps", []) if qp.get("peer") in {address, destination}}
    return [row for row in response.get("paths", []) if row["qp"] in own]


def _path(fabric: Fabric, source: str, destination: str, text: str) -> tuple[int, int]:
    known = fabric.paths(source, destination)
    if not text:
        return known[0]
    try:
        plane, slash, uplink = text.partition("/")
        path = (int(plane), int(uplink)) if slash else srv6.ev_fields(int(text, 16))[:2]
    except ValueError:
        raise ValueError(f"{text!r} is not an EV; write it in hexadecimal, or as PLANE/UPLINK, such as 1/2") from None
    if path not in known:
        raise ValueError(
            f"there is no path over plane {path[0]}, uplink {path[1]}; `paths {source} {destination}` lists them"
        )
    return path


def _switches(fabric: Fabric, source: str, destination: str, plane: int, uplink: int) -> list[tuple[Switch, str, str]]:
    """The switches of a path with the ports in and out."""
    crossed: Sequence[Link] = fabric.path_links(source, destination, plane, uplink)
    found = []
    at = source
    for link, following in pairwise(crossed):
        far = link.b if link.a.node == at else link.a
        near = following.a if following.a.node == far.node else following.b
        found.append((fabric.switch(far.node), far.interface, near.interface))
        at = far.node
    return found


def _hops(fabric: Fabric, source: str, destination: str, plane: int, uplink: int) -> list[tuple[int, str]]:
    """The uSIDs of a path's address in order, with the element of each."""
    values = srv6.usids(fabric.outer_address(source, destination, srv6.ev(plane, uplink, 0)))
    names = [switch.name for switch, _, _ in _switches(fabric, source, destination, plane, uplink)] + [destination]
    return list(zip((value for value in values if value), names, strict=False))
