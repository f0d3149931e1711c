"""The resolved plan of a fabric or scenario: nodes, traffic and faults. Needs no root, starts nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mrclab.controller.provisioning import intent
from mrclab.controller.provisioning.intent import IntendedEntry
from mrclab.lab.faults.base import FaultBase, LastingFault
from mrclab.lab.report.grid import grid
from mrclab.lab.scenario.scenario import Scenario
from mrclab.lab.scenario.units import show_bytes, show_rate, show_seconds
from mrclab.lab.traffic.base import Flow
from mrclab.topo import srv6
from mrclab.topo.input.sentences import quantity
from mrclab.topo.model import Fabric, Host, Switch
from mrclab.topo.spec import FabricSpec

MAX_ROWS = 256
"""Of a table, and names in a cell, that are shown in full."""

_FIRST, _LAST = 8, 4  # that are shown of more
T = TypeVar("T")
Row = tuple[object, ...]


def show(fabric: Fabric, scenario: Scenario | None, console: Console, tables: bool = False) -> None:
    """Print the plan; `tables` adds the table entries of the switches. Of long lists both ends are shown."""
    for line in _numbers(fabric):
        console.print(line, soft_wrap=True)
    made = [_hosts(fabric), _switches(fabric), _cables(fabric)]
    for table in [*made, _entries(fabric)] if tables else made:
        console.print(table)
    if scenario is None:
        return
    for line in _transport(fabric, scenario):
        console.print(escape(line), soft_wrap=True)
    for part in (_traffic, _flows, _time_line):
        console.print(part(fabric, scenario))
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
    hosts, cables = quantity(len(fabric.hosts), "host"), quantity(len(fabric.links), "cable")
    of_t0 = f"{quantity(spec.hosts_per_t0, 'host')} on each T0"
    yield (
        f"{len(fabric.switches)} switches, {hosts}, {cables}:"
        f" {quantity(spec.planes, 'plane')} of {_of_plane(spec)} with {of_t0}"
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


def _shown(items: Sequence[T], rows: Callable[[T], Iterable[Row]]) -> Iterator[Row]:
    """Rows of the items that are shown, and one for those between."""
    for item in _first_and_last(items):
        if item is None:
            yield (f"… {len(items) - _FIRST - _LAST:,} more",)
        else:
            yield from rows(item)


def _listed(items: Sequence[T], text: Callable[[T], str], between: str) -> str:
    return between.join("…" if item is None else text(item) for item in _first_and_last(items))


def _table(title: str, columns: Sequence[str], rows: Iterable[Row]) -> Table:
    table = grid(*columns, title=title, fold=True)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def _hosts(fabric: Fabric) -> Table:
    def rows(host: Host) -> Iterator[Row]:
        yield host.name, host.group, host.downlink, host.address, ", ".join(port.interface for port in host.ports)

    return _table("Hosts", ("host", "T0 group", "downlink", "address", "NIC ports"), _shown(fabric.hosts, rows))


def _switches(fabric: Fabric) -> Table:
    def rows(switch: Switch) -> Iterator[Row]:
        ports = _listed(switch.ports, lambda port: f"{port.number}→{port.peer.node}", ", ")
        count = sum(1 for _ in intent.entries(fabric, switch))
        yield switch.name, switch.device_id, f"{switch.usid:04x}", ports, count

    columns = ("switch", "device id", "uSID", "ports", "table entries")
    return _table("Switches", columns, _shown(fabric.switches, rows))


def _cables(fabric: Fabric) -> Table:
    shape = fabric.shape

    def row(plane: int) -> Row:
        last = shape.link_of_nic(len(fabric.hosts), plane)
        low = shape.link_of_switch("t0", plane, 1, shape.down + 1)
        kinds = [range(shape.link_of_nic(1, plane), last + 1, fabric.planes), range(low, low + shape.t0s * shape.up)]
        if shape.t2s:
            high = shape.link_of_switch("t1", plane, 1, shape.t0s_of_pod + 1)
            kinds.append(range(high, high + shape.t1s * shape.t2s_per_t1))
        return plane, *(_listed(links, lambda index: fabric.links[index].name, "  ") for links in kinds)

    tiers = ["NIC–T0", "T0–T1", "T1–T2"][: fabric.spec.tiers]
    return _table("Cables", ("plane", *tiers), map(row, range(1, fabric.planes + 1)))


def _entries(fabric: Fabric) -> Table:
    def rows(switch: Switch) -> Iterator[Row]:
        def of_switch(entry: IntendedEntry) -> Iterator[Row]:
            yield switch.name, entry.table, intent.describe(fabric, switch, entry)

        return _shown(intent.entries(fabric, switch), of_switch)

    return _table("Table entries", ("switch", "table", "entry"), _shown(fabric.switches, rows))


def _transport(fabric: Fabric, scenario: Scenario) -> Iterator[str]:
    transport, mapper = scenario.transport, scenario.mapper
    per_flow = quantity(transport.qps, "QP")
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
    yield f"traffic: {quantity(len(flows), 'flow')} over {quantity(sum(qps[flow.traffic] for flow in flows), 'QP')}"


def _traffic(fabric: Fabric, scenario: Scenario) -> Table:
    def rows() -> Iterator[Row]:
        for entry in scenario.traffic:
            qps = entry.qps_of(scenario.transport.qps)
            yield entry.name, entry.kind_name, entry.text(fabric, qps), entry.start, qps
            for name, value in entry.attributes.items():
                yield "", "", f"{name} {value}"

    return _table("Traffic", ("name", "kind", "what", "begins", "QPs"), rows())


def _flows(fabric: Fabric, scenario: Scenario) -> Table:
    roce = scenario.transport.kind == "roce"

    def rows(flow: Flow) -> Iterator[Row]:
        paths = fabric.paths(flow.source, flow.destination)
        first = fabric.outer_address(flow.source, flow.destination, srv6.ev(*paths[0], srv6.ev_tag(0)))
        address = fabric.host(flow.destination).address if roce else srv6.text(first)
        size = "until its time is over" if flow.size is None else show_bytes(flow.size)
        yield flow.name, size, len(paths), show_seconds(fabric.base_rtt(flow.source, flow.destination)), address

    columns = ("flow", "bytes", "paths", "base RTT", "address" if roce else "address of the first path")
    return _table("Flows", columns, _shown(scenario.flows(fabric), rows))


def _time_line(fabric: Fabric, scenario: Scenario) -> Table:
    def rows() -> Iterator[Row]:
        for fault in scenario.faults:
            yield fault.name, fault.kind_name, fault.text(fabric), fault.at, _cleared(fault)
            for part in fault.parts(fabric, scenario.seed) if fault.prefix is not None else ():
                begins = f"{fault.name} + {part.at}"
                cleared = f"{fault.name} + {part.ends_at}" if part.ends_at else _cleared(part)
                yield f"  {part.name}", part.kind_name, part.text(fabric), begins, cleared

    return _table("Faults", ("name", "kind", "what", "begins", "is cleared"), rows())


def _cleared(fault: FaultBase) -> str:
    if isinstance(fault, LastingFault):
        return str(fault.until) if fault.until else "at the end"
    return "automatically"
