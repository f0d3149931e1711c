"""Set-up of a data-plane case on a switch, the same for either target.

`on_soft` does it through softswitch's own runtime interface inside the test process, `on_bmv2` through P4Runtime (and
Thrift for what P4Runtime lacks there).
"""

import struct
from dataclasses import dataclass, field
from typing import Any

from finsy.proto import p4r
from p4runtime_client import Client

from mrclab.softswitch.objects import runtime_api as api
from mrclab.softswitch.p4.program import TableKey
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo.linux.switches import thrift

THRIFT_STRING = 11


@dataclass
class Setup:
    """Lists of things to set up, in P4Info names. Match values are as in `p4runtime_client.Names.entry`."""

    entries: list[tuple[str, dict[str, Any], Any, int]] = field(default_factory=list)
    defaults: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    members: list[tuple[str, int, str, tuple[int, ...]]] = field(default_factory=list)
    groups: list[tuple[str, int, dict[int, int]]] = field(default_factory=list)
    multicast: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    clones: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    meters: list[tuple[str, int, tuple[int, int, int, int]]] = field(default_factory=list)
    direct_meters: list[tuple[str, dict[str, Any], tuple[int, int, int, int]]] = field(default_factory=list)
    value_sets: dict[str, list[int]] = field(default_factory=dict)

    def entry(self, table: str, match: dict[str, Any], action: str, *args: int, priority: int = 0) -> "Setup":
        self.entries.append((table, match, (action, args), priority))
        return self

    def to_member(self, table: str, match: dict[str, Any], member: int) -> "Setup":
        self.entries.append((table, match, ("member", member), 0))
        return self

    def to_group(self, table: str, match: dict[str, Any], group: int) -> "Setup":
        self.entries.append((table, match, ("group", group), 0))
        return self


# -- softswitch -------------------------------------------------------------------------------------------------------


def soft_match(key: tuple[TableKey, ...], match: dict[str, Any]) -> api.MatchKey:
    return tuple(_soft_field(info, match.get(info.name)) for info in key)


def _soft_field(info: TableKey, value: Any) -> api.FieldMatch:
    full = (1 << info.width) - 1
    if info.kind == "range":
        return value or (0, full)
    if info.kind == "ternary":
        if value is None:
            return 0, 0
        return value if isinstance(value, tuple) else (value, full)  # p4c writes optional keys as ternary ones
    if info.kind == "lpm":
        return value or (0, 0)
    return value


def soft_table(switch: SoftSwitch, name: str) -> str:
    """P4Info aliases are the shortest unique suffix of a name; here the suffix is enough."""
    return next(table for table in switch.program().tables if table == name or table.endswith(f".{name}"))


def _soft_action(switch: SoftSwitch, table: str, action: tuple[str, Any]) -> api.EntryAction:
    name, args = action
    if name == "member":
        return api.MemberRef(args)
    if name == "group":
        return api.GroupRef(args)
    actions = switch.table(table).actions
    return api.ActionCall(next(a for a in actions if a == name or a.endswith(f".{name}")), tuple(args))


def on_soft(switch: SoftSwitch, setup: Setup) -> None:
    """Do it to a switch of this process."""
    program = switch.program()
    for profile, member, action, args in setup.members:
        name, table = next(
            (name, table)
            for name, table in program.tables.items()
            if table.profile and table.profile.name.endswith(profile)
        )
        call = _soft_action(switch, name, (action, args))
        assert isinstance(call, api.ActionCall)
        assert table.profile is not None
        table.profile.insert_member(member, call)
    for profile, group, weights in setup.groups:
        name = next(p for p in program.profiles if p.endswith(profile))
        members = [member for member, weight in weights.items() for _ in range(weight)]
        switch.profile(name).insert_group(group, members)
    for name, match, action, priority in setup.entries:
        table_name = soft_table(switch, name)
        key = soft_match(program.tables[table_name].table.key, match)
        switch.table(table_name).insert(api.TableEntry(key, _soft_action(switch, table_name, action), priority))
    for name, action, args in setup.defaults:
        table_name = soft_table(switch, name)
        switch.table(table_name).set_default(_soft_action(switch, table_name, (action, args)))
    for group, replicas in setup.multicast.items():
        switch.replication.groups[group] = tuple(api.Replica(*replica) for replica in replicas)
    for session, replicas in setup.clones.items():
        switch.replication.sessions[session] = api.CloneSession(tuple(api.Replica(*replica) for replica in replicas))
    for name, index, rates in setup.meters:
        program.meter_write(next(m for m in program.meters if m.endswith(name)), index, api.MeterConfig(*rates))
    for name, match, rates in setup.direct_meters:
        table_name = soft_table(switch, name)
        key = soft_match(program.tables[table_name].table.key, match)
        switch.table(table_name).set_meter(key, 0, api.MeterConfig(*rates))
    for name, values in setup.value_sets.items():
        switch.program().value_sets[name].members = [((value, -1),) for value in values]


# -- BMv2 -------------------------------------------------------------------------------------------------------------


def on_bmv2(client: Client, setup: Setup, inside: int, thrift_port: int) -> None:
    """Do it to a BMv2 process: `inside` is its network namespace."""
    n = client.names
    for profile, member, action, args in setup.members:
        client.insert(n.member(profile, member, n.action(action, *args)))
    for profile, group, weights in setup.groups:
        client.insert(n.group(profile, group, weights, max_size=16))
    for table, match, action, priority in setup.entries:
        client.insert(_bmv2_entry(n, table, match, action, priority))
    for table, action, args in setup.defaults:
        client.modify(n.default(table, n.action(action, *args)))
    for group, replicas in setup.multicast.items():
        copies = [p4r.Replica(egress_port=port, instance=rid) for port, rid in replicas]
        client.insert(p4r.MulticastGroupEntry(multicast_group_id=group, replicas=copies))
    for session, replicas in setup.clones.items():
        copies = [p4r.Replica(egress_port=port, instance=rid) for port, rid in replicas]
        client.insert(p4r.CloneSessionEntry(session_id=session, replicas=copies))
    for name, index, rates in setup.meters:
        entry = p4r.MeterEntry(meter_id=n.id(name), index=p4r.Index(index=index), config=_config(rates))
        client.modify(entry)
    for table, match, rates in setup.direct_meters:
        target = _bmv2_entry(n, table, match, None, 0)
        client.modify(p4r.DirectMeterEntry(table_entry=target, config=_config(rates)))
    if setup.value_sets:
        with thrift.ThriftClient(inside, thrift_port, "standard") as switch:
            for name, values in setup.value_sets.items():
                _add_values(switch, name, values)


def _add_values(switch: thrift.ThriftClient, name: str, values: list[int]) -> None:
    for value in values:
        arguments = [thrift.i32(0), _string(name.encode()), _string(value.to_bytes(2, "big"))]
        switch.call("bm_parse_vset_add", *arguments)


def _string(raw: bytes) -> thrift.Argument:
    return thrift.Argument(THRIFT_STRING, struct.pack("!i", len(raw)) + raw)


def _config(rates: tuple[int, int, int, int]) -> p4r.MeterConfig:
    cir, cburst, pir, pburst = rates
    return p4r.MeterConfig(cir=cir, cburst=cburst, pir=pir, pburst=pburst)


def _bmv2_entry(names: Any, table: str, match: dict[str, Any], action: Any, priority: int) -> p4r.TableEntry:
    entry = names.entry(table, match, None, priority)
    if action is None:
        return entry
    name, args = action
    if name == "member":
        entry.action.action_profile_member_id = args
    elif name == "group":
        entry.action.action_profile_group_id = args
    else:
        entry.action.action.CopyFrom(names.action(name, *args))
    return entry
