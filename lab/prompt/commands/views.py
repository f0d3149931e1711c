"""Commands that show: nodes, cables, paths, EVs, tables, counters, faults, traffic; one probe hop by hop."""

from collections.abc import Sequence
from itertools import pairwise, permutations
from typing import Any

from rich.console import Group
from rich.markup import escape

from mrclab.controller.provisioning import intent
from mrclab.lab.command.display import views
from mrclab.lab.errors import RunError
from mrclab.lab.prompt.registry import COMMANDS, LOCAL, UNTYPED, Answer, all_kinds, all_nodes, command, rows, unknown
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.report.grid import grid
from mrclab.lab.scenario import reference
from mrclab.lab.scenario.units import show_bytes, show_rate
from mrclab.topo import srv6
from mrclab.topo.input.sentences import nearest
from mrclab.topo.model import Fabric, Switch

_COUNTED = {"sent": "tx_packets", "marked": "ecn_marked", "trimmed": "trimmed"}
LOOK_S = 1.0  # seconds in which switches and agents must respond
PROBE_TIMEOUT = 1.0  # seconds, or as many of virtual time


@command("help [COMMAND] [KIND]", "all commands; one; or a kind of fault or traffic with its fields: help fault loss")
def help_(_session: LabSession, name: str = "", kind: str = "", *_: str) -> Answer:
    """List all commands, or show one, or one kind."""
    if not name:
        every = [*COMMANDS.values(), *LOCAL.values()]
        made = rows([{"command": each.usage, "does": each.meaning} for each in every], "command", "does")
        return Answer(made, {each.usage if each.name in LOCAL else each.name: each.meaning for each in every})
    known = all_kinds().get(name)
    if kind and known is not None:
        return _kind(name, kind)
    found = COMMANDS.get(name) or LOCAL.get(name)
    if found is None:
        raise ValueError(unknown(name))
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
        value = str(each["value"]).replace(", see below", "")
        cells = (each["name"], value, "needed" if each["needed"] else each["default"], each["meaning"])
        made.add_row(*(escape(str(cell).replace("`", "")) for cell in cells))
    note = "name=NAME may be given to all; docs/scenario-reference.md says more"
    return Answer(Group(escape(about), made, note), {"kind": kind, "about": about, "fields": entries})


@command("status", "switches, cables, hosts, denials, faults and traffic")
def status(session: LabSession) -> Answer:
    """Return the status of everything."""
    response = session.ask("status", LOOK_S, ask=LOOK_S)
    lines = [f"faults    {', '.join(session.faults) or 'none'}"]
    lines.append(f"traffic   {', '.join(each.name for each in session.lab.active) or 'none'}")
    if session.speed is not None:
        lines.append(f"time      {session.world.now:.6f} s of virtual time, {session.speed:g} s per second")
    return Answer(Group(views.status(response), escape("\n".join(lines))), {**response, "faults": session.faults})


@command("nodes", "switches and hosts")
def nodes(session: LabSession) -> Answer:
    """Every node, by kind."""
    response = {"hosts": [host.name for host in session.world.fabric.hosts]}
    for switch in session.world.fabric.switches:
        response.setdefault(switch.tier, []).append(switch.name)
    return Answer("\n".join(f"{kind:6}{' '.join(names)}" for kind, names in response.items()), response)


@command("net", "every node with its ports and their far ends")
def net(session: LabSession) -> Answer:
    """Ports and their far ends."""
    fabric = session.world.fabric
    ports = {node.name: {port.interface: port.peer.interface for port in node.ports} for node in all_nodes(fabric)}
    text = "\n".join(f"{name}  " + "  ".join(f"{a}:{b}" for a, b in ends.items()) for name, ends in ports.items())
    return Answer(text, ports)


@command("links", "every cable and its faults")
def links(session: LabSession) -> Answer:
    """Cables."""
    degraded = session.down()
    entries = [
        {"cable": link.name, "plane": link.plane, "faults": ", ".join(degraded.get(link.name, [])) or "–"}
        for link in session.world.fabric.links
    ]
    return Answer(rows(entries, "cable", "plane", "faults"), {"links": entries})


@command("map", "Clustermapper's map: health of every cable, and faulty elements (after mrclab up --mapper)")
def link_map(session: LabSession) -> Answer:
    """Clustermapper's map."""
    response = session.ask("map")
    return Answer(views.link_map(response), response)


@command("paths HOST HOST", "every path between two hosts: its uSIDs hop by hop, and its state")
def paths(session: LabSession, source: str, destination: str) -> Answer:
    """Paths with the addresses that name them."""
    fabric, degraded = session.world.fabric, session.down()
    source, destination = _two_hosts(fabric, source, destination)
    states = {(row["plane"], row["uplink"]): row["state"] for row in _rows_to(session, source, destination)}
    entries: list[dict[str, Any]] = []
    for plane, uplink in fabric.paths(source, destination):
        crossed = fabric.path_links(source, destination, plane, uplink)
        address = fabric.outer_address(source, destination, srv6.ev(plane, uplink, 0))
        names = [switch.name for switch, _, _ in _switches(fabric, source, destination, plane, uplink)] + [destination]
        usids = [usid for usid in srv6.usids(address) if usid]
        entries.append({
            "plane": plane, "uplink": uplink, "address": srv6.text(address),
            "hops": [f"{usid:04x} {name}" for usid, name in zip(usids, names, strict=False)],
            "state": states.get((plane, uplink), "unused"),
            "faults": [name for link in crossed for name in degraded.get(link.name, [])],
        })  # fmt: skip
    shown = [
        {**entry, "uplink": entry["uplink"] or "–", "destination address": entry["address"],
         "hop by hop": " → ".join(entry["hops"]), "faults": ", ".join(entry["faults"]) or "–"}
        for entry in entries
    ]  # fmt: skip
    faulty = ["faults"] * any(entry["faults"] for entry in entries)
    made = rows(shown, "plane", "uplink", "destination address", "hop by hop", "state", *faulty)
    return Answer(made, {"source": source, "destination": destination, "paths": entries})


@command("evs HOST", "state of every EV of a host's QPs, of its last finished traffic too")
def evs(session: LabSession, host: str) -> Answer:
    """EVs of a host."""
    host = session.world.fabric.host(host).name
    found = _call(session, host, "stats").get("paths", [])
    shown = [
        {**row, "EV": f"{row['ev']:08x}", "QP": row["qp"], "sent": row.get("sent_packets", 0),
         "lost": row.get("lost_packets", 0)}
        for row in found
    ]  # fmt: skip
    columns = ("QP", "EV", "plane", "uplink", "state", "sent", "lost")
    made = rows(shown, *columns, right=("sent", "lost")) if shown else f"{host} has sent nothing yet"
    return Answer(made, {"host": host, "evs": found})


@command(
    "trace HOST HOST [EV]",
    "one probe over one path, hop by hop",
    "EV is hexadecimal as `evs` has it, or PLANE/UPLINK of `paths` as 1/2; without it the first path is taken.",
)
def trace(session: LabSession, source: str, destination: str, ev_text: str = "") -> Answer:
    """Send one EV probe and show how each hop changes its address. `queue` is the depth at the output port; the
    counters include all packets in that time.
    """
    fabric = session.world.fabric
    source, destination = _two_hosts(fabric, source, destination)
    plane, uplink = _path(fabric, source, destination, ev_text)
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
    rtt = result["rtt"]
    verdict = f"answered after {1000 * rtt:.3f} ms" if rtt is not None else "no answer"
    line = f"{source} → {destination}, plane {plane}, uplink {uplink or '–'}, EV {ev:08x}: {verdict}"
    shown = [{**each, **{way: str(each[way]).rpartition("-")[2] for way in ("in", "out")}} for each in entries]
    numbers = ("queue", *_COUNTED)
    made = rows(shown, "switch", "in", "out", "before", "after", *numbers, right=("in", "out", *numbers))
    return Answer(Group(line, made), {"ev": ev, "rtt": rtt, "hops": entries})


@command("pingall", "an EV probe over every path between all pairs of hosts")
def pingall(session: LabSession) -> Answer:
    """Every path of every pair."""
    fabric = session.world.fabric
    lost: list[dict[str, Any]] = []
    sent = 0
    for source, destination in permutations((host.name for host in fabric.hosts), 2):
        known = fabric.paths(source, destination)
        response = probe(session, source, destination, [srv6.ev(*path, srv6.ev_tag(0)) for path in known])
        sent += len(known)
        lost += [
            {"source": source, "destination": destination, "plane": plane, "uplink": uplink}
            for (plane, uplink), row in zip(known, response, strict=True)
            if row["rtt"] is None
        ]
    line = f"{sent - len(lost)} of {sent} paths answer"
    made = [rows(lost, "source", "destination", "plane", "uplink")] if lost else []
    return Answer(Group(line, *made), {"sent": sent, "lost": lost})


@command("tables SWITCH", "table entries of a switch, and those that differ from the intended ones")
def tables(session: LabSession, name: str) -> Answer:
    """Table entries."""
    fabric = session.world.fabric
    switch = fabric.switch(name)
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
    return Answer(Group(rows(entries, "table", "entry"), escape(line)), response)


@command("counters [SWITCH]", "packets dropped by switches, by reason; of one switch also by port")
def counters(session: LabSession, name: str = "") -> Answer:
    """Switch counters."""
    response = session.ask("counters")["switches"]
    fabric = session.world.fabric
    names = [fabric.switch(name).name] if name else [switch.name for switch in fabric.switches]
    lines = []
    for each in names:
        if each not in response:
            lines.append(f"{each}: not read, since it did not answer")
            continue
        drops = [f"{reason} {count}" for reason, count in response[each].get("drops", {}).items() if count]
        lines.append(f"{each}: {', '.join(drops) or 'nothing dropped'}")
        for number, port in response[each].get("ports", {}).items() if name else ():
            lines.append(f"  port {number}: in {port.get('rx_packets', 0)}, out {port.get('tx_packets', 0)} packets")
    return Answer("\n".join(lines), {each: response.get(each) for each in names})


@command("faults", "faults in force; docs/faults.md lists every kind and its fields")
def faults(session: LabSession) -> Answer:
    """Faults in force, and errors of background work."""
    active = session.faults
    errors, session.errors[:] = list(session.errors), []
    lines = [f"{name}: {text}" for name, text in active.items()] or ["none"]
    return Answer(escape("\n".join([*lines, *errors])), {"faults": active, "errors": errors})


@command("flows", "running and finished traffic")
def flows(session: LabSession) -> Answer:
    """Background traffic."""
    with session.lock:
        entries = [_flow(session, name) for name in session.lab.workloads]
    shown = [
        {**each, "done": f"{each['done']:.0%}", "bytes": show_bytes(each["bytes"]),
         "goodput": "–" if each["goodput"] is None else show_rate(each["goodput"])}
        for each in entries
    ]  # fmt: skip
    made = rows(shown, "name", "kind", "done", "bytes", "goodput", "state", right=("done", "bytes"))
    return Answer(made if shown else "none yet", {"flows": entries})


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


def _two_hosts(fabric: Fabric, source: str, destination: str) -> tuple[str, str]:
    source, destination = fabric.host(source).name, fabric.host(destination).name
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
    crossed = fabric.path_links(source, destination, plane, uplink)
    found = []
    at = source
    for link, following in pairwise(crossed):
        far = link.b if link.a.node == at else link.a
        near = following.a if following.a.node == far.node else following.b
        found.append((fabric.switch(far.node), far.interface, near.interface))
        at = far.node
    return found
