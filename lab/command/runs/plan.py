"""The resolved plan of a fabric or scenario: nodes, traffic and faults. Needs no root, starts nothing."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mrclab.controller.provisioning import intent
from mrclab.lab.faults.base import FaultBase, LastingFault
from mrclab.lab.report.grid import grid
from mrclab.lab.scenario.scenario import Scenario
from mrclab.lab.scenario.units import show_bytes, show_rate, show_seconds
from mrclab.lab.traffic.base import Flow
from mrclab.topo import srv6
from mrclab.topo.model import Fabric, Host, Switch
from mrclab.topo.spec import FabricSpec

MAX_ROWS = 256
"""Of a table, and names in a cell, that are shown in full."""

_FIRST, _LAST = 8, 4  # that are shown of more
T = TypeVar("T")


def show(fabric: Fabric, scenario: Scenario | None, console: Console, tables: bool = False) -> None:
    """Print the plan; `tables` adds the table entries of the switches. Of long lists both ends are shown."""
    for line in _numbers(fabric):
        console.print(line, soft_wrap=True)
    console.print(_hosts(fabric))
    console.print(_switches(fabric))
    console.print(_cables(fabric))
    if tables:
        console.print(_entries(fabric))
    if scenario is not None:
        for line in _transport(fabric, scenario):
            console.print(escape(line), soft_wrap=True)
        console.print(_traffic(fabric, scenario))
        console.print(_flows(fabric, scenario))
        console.print(_time_line(fabric, scenario))
        for verb, entries in (("expect", scenario.expect), ("measure", scenario.measure)):
            for entry in entries:
                fields = entry.model_dump(mode="json", exclude_none=True, exclude={"kind"})
                near = {"about", "share_about"} & type(entry).model_fields.keys()
                if near and not near & fields.keys() and "within" not in entry.model_fields_set:
                    del fields["within"]  # the tolerance of a figure that is not given
                limits = ", ".join(f"{name} {_as_text(value)}" for name, value in fields.items())
                console.print(f"  {verb} {entry.kind_name}" + (f": {escape(limits)}" if limits else ""))


def _as_text(value: object) -> str:
    """Write a field's value as a scenario has it."""
    if isinstance(value, list):
        return " and ".join(map(_as_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_json(fabric: Fabric, scenario: Scenario | None, tables: bool = False) -> dict[str, Any]:
    """The same for programs, of long lists everything; `tables` adds the table entries of the switches."""
    plan: dict[str, Any] = {
        "fabric": fabric.spec.model_dump(mode="json"),
        "hosts": [
            {"name": host.name, "group": host.group, "downlink": host.downlink, "address": host.address,
             "ports": [port.interface for port in host.ports]}
            for host in fabric.hosts
        ],
        "switches": [
            {"name": switch.name, "device_id": switch.device_id, "usid": f"{switch.usid:04x}",
             "ports": {port.number: port.peer.node for port in switch.ports}}
            for switch in fabric.switches
        ],
        "cables": [{"name": link.name, "plane": link.plane} for link in fabric.links],
    }  # fmt: skip
    if tables:
        plan["entries"] = {
            switch.name: [
                {"table": entry.table, "entry": intent.describe(fabric, switch, entry)}
                for entry in intent.entries(fabric, switch)
            ]
            for switch in fabric.switches
        }
    if scenario is not None:
        plan["scenario"] = scenario.model_dump(mode="json", exclude={"fabric"})
        plan["flows"] = [
            {"name": flow.name, "source": flow.source, "destination": flow.destination, "bytes": flow.size,
             "paths": len(fabric.paths(flow.source, flow.destination)),
             "base_rtt": fabric.base_rtt(flow.source, flow.destination)}
            for flow in scenario.flows(fabric)
        ]  # fmt: skip
        plan["faults"] = [
            {"name": fault.name, "kind": fault.kind_name, "what": fault.text(fabric), "at": str(fault.at)}
            for fault in scenario.faults
        ]
    return plan


def _of_plane(spec: FabricSpec) -> str:
    """The switches of a plane."""
    if spec.pods == 1:
        return f"{spec.t0s} T0 and {spec.t1s} T1"
    return f"{spec.pods} pods, each {spec.t0s // spec.pods} T0 and {spec.t1s} T1, and {spec.t2s} T2"


def _numbers(fabric: Fabric) -> Iterator[str]:
    spec = fabric.spec
    rate = spec.line_pps * spec.path_mtu
    queue = spec.queue
    yield (
        f"{len(fabric.switches)} switches, {len(fabric.hosts)} hosts, {len(fabric.links)} cables:"
        f" {spec.planes} planes of {_of_plane(spec)} with {spec.hosts_per_t0} hosts on each T0"
    )
    yield (
        f"links: {spec.link.rate_pps} full-size packets/s, {show_seconds(spec.link.delay)} one way;"
        f" path MTU {spec.path_mtu} bytes; payload line rate of a host {show_rate(rate)}"
    )
    yield (
        f"queues, in packets: depth {queue.depth}, ECN from {queue.ecn_min} to {queue.ecn_max}, trimming"
        + (f" at {queue.trim_threshold}, towards hosts at {queue.last_hop_trim_threshold}" if spec.trimming else " off")
    )


def _first_and_last(items: Sequence[T]) -> Iterator[T | None]:
    """All of a few items; of many the first and the last, None between them."""
    if len(items) <= MAX_ROWS:
        yield from items
    else:
        yield from items[:_FIRST]
        yield None
        yield from items[len(items) - _LAST :]


def _skip(table: Table, items: Sequence[object]) -> None:
    table.add_row(f"… {len(items) - _FIRST - _LAST:,} more", *[""] * (len(table.columns) - 1))


def _fill(table: Table, items: Sequence[T], row: Callable[[T], Sequence[str]]) -> None:
    """Add the rows of the items that are shown, and one for those between."""
    for item in _first_and_last(items):
        if item is None:
            _skip(table, items)
        else:
            table.add_row(*row(item))


def _listed(words: Sequence[str]) -> str:
    return ", ".join("…" if word is None else word for word in _first_and_last(words))


def _hosts(fabric: Fabric) -> Table:
    table = grid("host", "T0 group", "downlink", "address", "NIC ports", title="Hosts", fold=True)

    def row(host: Host) -> list[str]:
        ports = ", ".join(port.interface for port in host.ports)
        return [host.name, str(host.group), str(host.downlink), host.address, ports]

    _fill(table, fabric.hosts, row)
    return table


def _switches(fabric: Fabric) -> Table:
    table = grid("switch", "device id", "uSID", "ports", "table entries", title="Switches", fold=True)

    def row(switch: Switch) -> list[str]:
        ports = _listed([f"{port.number}→{port.peer.node}" for port in switch.ports])
        count = sum(1 for _ in intent.entries(fabric, switch))
        return [switch.name, str(switch.device_id), f"{switch.usid:04x}", ports, str(count)]

    _fill(table, fabric.switches, row)
    return table


def _cables(fabric: Fabric) -> Table:
    shape = fabric.shape
    tiers = ["NIC–T0", "T0–T1", "T1–T2"][: fabric.spec.tiers]
    table = grid("plane", *tiers, title="Cables", fold=True)
    for plane in range(1, fabric.planes + 1):
        last = shape.link_of_nic(len(fabric.hosts), plane)
        low = shape.link_of_switch("t0", plane, 1, shape.down + 1)
        kinds = [range(shape.link_of_nic(1, plane), last + 1, fabric.planes), range(low, low + shape.t0s * shape.up)]
        if shape.t2s:
            high = shape.link_of_switch("t1", plane, 1, shape.t0s_of_pod + 1)
            kinds.append(range(high, high + shape.t1s * shape.t2s_per_t1))
        table.add_row(str(plane), *("  ".join(_link_names(fabric, some)) for some in kinds))
    return table


def _link_names(fabric: Fabric, indexes: Sequence[int]) -> Iterator[str]:
    return ("…" if index is None else fabric.links[index].name for index in _first_and_last(indexes))


def _entries(fabric: Fabric) -> Table:
    table = grid("switch", "table", "entry", title="Table entries", fold=True)
    for switch in _first_and_last(fabric.switches):
        if switch is None:
            _skip(table, fabric.switches)
            continue
        entries = intent.entries(fabric, switch)
        for entry in _first_and_last(entries):
            if entry is None:
                _skip(table, entries)
            else:
                table.add_row(switch.name, entry.table, escape(intent.describe(fabric, switch, entry)))
    return table


def _transport(fabric: Fabric, scenario: Scenario) -> Iterator[str]:
    transport, mapper = scenario.transport, scenario.mapper
    per_flow = "1 QP" if transport.qps == 1 else f"{transport.qps} QPs"
    control = f"congestion control {transport.control}"
    yield f"transport: {transport.kind}, {control}, {per_flow} per flow; seed {scenario.seed}"
    if transport.kind == "mrc" and transport.path_selection is not None:
        yield f"path selection: {transport.selection}"
    for title, values in (
        (transport.control, transport.congestion_settings),
        (transport.selection, transport.path_settings),
        ("EV profile", transport.ev_profile),
        ("attributes", transport.attributes),
    ):
        if values:
            yield f"  {title}: " + ", ".join(f"{name} {value}" for name, value in values.items())
    if mapper is not None:
        yield f"Clustermapper: every path in {show_seconds(mapper.cycle)}, deny {str(mapper.deny).lower()}"
    flows = scenario.flows(fabric)
    qps = {entry.name: entry.qps_of(transport.qps) for entry in scenario.traffic}
    yield f"traffic: {len(flows)} flows over {sum(qps[flow.traffic] for flow in flows)} QPs"


def _traffic(fabric: Fabric, scenario: Scenario) -> Table:
    table = grid("name", "kind", "what", "begins", "QPs", title="Traffic", fold=True)
    for entry in scenario.traffic:
        qps = entry.qps_of(scenario.transport.qps)
        table.add_row(entry.name, entry.kind_name, escape(entry.text(fabric, qps)), str(entry.start), str(qps))
        for name, value in entry.attributes.items():
            table.add_row("", "", f"{name} {value}", "", "")
    return table


def _flows(fabric: Fabric, scenario: Scenario) -> Table:
    roce = scenario.transport.kind == "roce"
    address_title = "address" if roce else "address of the first path"
    table = grid("flow", "bytes", "paths", "base RTT", address_title, title="Flows", fold=True)

    def row(flow: Flow) -> list[str]:
        paths = fabric.paths(flow.source, flow.destination)
        first = fabric.outer_address(flow.source, flow.destination, srv6.ev(*paths[0], srv6.ev_tag(0)))
        address = fabric.host(flow.destination).address if roce else srv6.text(first)
        size = "until its time is over" if flow.size is None else show_bytes(flow.size)
        rtt = show_seconds(fabric.base_rtt(flow.source, flow.destination))
        return [flow.name, size, str(len(paths)), rtt, address]

    _fill(table, scenario.flows(fabric), row)
    return table


def _time_line(fabric: Fabric, scenario: Scenario) -> Table:
    table = grid("name", "kind", "what", "begins", "is cleared", title="Faults", fold=True)
    for fault in scenario.faults:
        table.add_row(fault.name, fault.kind_name, escape(fault.text(fabric)), str(fault.at), _cleared(fault))
        if fault.prefix is not None:
            for part in fault.parts(fabric, scenario.seed):
                begins = f"{fault.name} + {part.at}"
                cleared = f"{fault.name} + {part.ends_at}" if part.ends_at else _cleared(part)
                table.add_row(f"  {part.name}", part.kind_name, escape(part.text(fabric)), begins, cleared)
    return table


def _cleared(fault: FaultBase) -> str:
    if isinstance(fault, LastingFault):
        return str(fault.until) if fault.until else "at the end"
    return "automatically"
