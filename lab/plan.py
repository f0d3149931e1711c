"""The resolved plan of a fabric or scenario: what would be built and done. Needs no root, starts nothing."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from controller import intent
from lab.scenario import Scenario
from lab.units import show_bytes, show_rate, show_seconds
from topo import srv6
from topo.model import Fabric


def show(fabric: Fabric, scenario: Scenario | None, console: Console, tables: bool = False) -> None:
    """Print the plan; `tables` adds every table entry of every switch."""
    for line in _numbers(fabric):
        console.print(line, soft_wrap=True)
    console.print(_hosts(fabric))
    console.print(_switches(fabric))
    console.print(_cables(fabric))
    if tables:
        console.print(_entries(fabric))
    if scenario is not None:
        console.print(_traffic(fabric, scenario))
        console.print(_time_line(scenario))
        for expectation in scenario.expect:
            fields = expectation.model_dump(mode="json", exclude_none=True, exclude={"kind"})
            said = ", ".join(f"{name} {value}" for name, value in fields.items())
            console.print(f"  expect {expectation.kind}: {escape(said)}" if said else f"  expect {expectation.kind}")


def _numbers(fabric: Fabric) -> Iterator[str]:
    spec = fabric.spec
    rate = spec.planes * spec.link.rate_pps * spec.path_mtu
    queue = spec.queue
    yield (
        f"{len(fabric.switches)} switches, {len(fabric.hosts)} hosts, {len(fabric.links)} cables:"
        f" {spec.planes} planes of {spec.t0s} T0 and {spec.t1s} T1 with {spec.hosts_per_t0} hosts on each T0"
    )
    yield (
        f"links: {spec.link.rate_pps} full-size packets/s, {show_seconds(spec.link.delay)} one way;"
        f" path MTU {spec.path_mtu} bytes; payload line rate of a host {show_rate(rate)}"
    )
    yield (
        f"queues, in packets: depth {queue.depth}, ECN from {queue.ecn_min} to {queue.ecn_max}, trimming"
        + (f" at {queue.trim_threshold}, towards hosts at {queue.last_hop_trim_threshold}" if spec.trimming else " off")
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _hosts(fabric: Fabric) -> Table:
    table = _table("Hosts", "host", "T0 group", "downlink", "address", "NIC ports")
    for host in fabric.hosts:
        ports = ", ".join(port.interface for port in host.ports)
        table.add_row(host.name, str(host.group), str(host.downlink), host.address, ports)
    return table


def _switches(fabric: Fabric) -> Table:
    table = _table("Switches", "switch", "device id", "uSID", "ports", "table entries")
    for switch in fabric.switches:
        ports = ", ".join(f"{port.number}→{port.peer.node}" for port in switch.ports)
        count = len(intent.entries(fabric, switch))
        table.add_row(switch.name, str(switch.device_id), f"{switch.usid:04x}", ports, str(count))
    return table


def _cables(fabric: Fabric) -> Table:
    table = _table("Cables", "plane", "NIC–T0", "T0–T1")
    for plane in range(1, fabric.planes + 1):
        kinds = {"nic": "", "fabric": ""}
        for link in fabric.links:
            if link.plane == plane:
                kinds[link.kind] += ("  " if kinds[link.kind] else "") + link.name
        table.add_row(str(plane), kinds["nic"], kinds["fabric"])
    return table


def _entries(fabric: Fabric) -> Table:
    table = _table("Table entries", "switch", "table", "entry")
    for switch in fabric.switches:
        for entry in intent.entries(fabric, switch):
            table.add_row(switch.name, entry.table, intent.describe(fabric, switch, entry))
    return table


def _traffic(fabric: Fabric, scenario: Scenario) -> Table:
    table = _table("Traffic", "name", "what", "paths", "address of the first path")
    for entry in scenario.traffic:
        paths = fabric.paths(entry.source, entry.destination)
        address = fabric.outer_address(entry.source, entry.destination, srv6.ev(*paths[0], srv6.ev_tag(0)))
        what = f"{entry.source} writes {show_bytes(entry.size)} to {entry.destination}"
        if entry.start:
            what += f" from {entry.start:g} s on"
        table.add_row(entry.name, what, str(len(paths)), srv6.text(address))
    return table


def _time_line(scenario: Scenario) -> Table:
    table = _table("Faults", "name", "kind", "cable", "strikes", "is healed")
    for fault in scenario.faults:
        healed = str(fault.until) if fault.until else "at the end"
        table.add_row(fault.name, fault.kind, fault.link, str(fault.at), healed)
    return table
