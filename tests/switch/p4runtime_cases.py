"""Requests to both targets: one function per subject, run on a fresh switch with the test program loaded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from finsy.proto import p4r
from p4runtime_client import MAC, TERNARY_KEY, Names, SetRequest, StreamClient
from p4runtime_transcript import DELETE, INSERT, MODIFY, Step, Transcript, differences
from traffic_cases import TRAFFIC_CASES

GetRequest = p4r.GetForwardingPipelineConfigRequest


def exact(names: Names, mac: int, port: int = 3, **fields: Any) -> p4r.TableEntry:
    return names.entry("exact_table", {MAC: mac}, names.action("count_exact", port), **fields)


def ternary(names: Names, match: dict[str, Any] | None = None, priority: int = 10, **fields: Any) -> p4r.TableEntry:
    chosen = TERNARY_KEY if match is None else match
    return names.entry("ternary_table", chosen, names.action("colour", 3), priority, **fields)


def table_entries(t: Transcript) -> None:
    n = t.names
    t.insert("two entries", exact(n, 1, metadata=b"m", controller_metadata=7), exact(n, 0, 0))
    t.read("all tables", p4r.TableEntry())
    t.read("one table", p4r.TableEntry(table_id=n.id("exact_table")))
    t.read("one entry", exact(n, 1))
    t.read("no such entry", exact(n, 9))
    t.insert("the same again", exact(n, 1))
    t.modify("another action", n.entry("exact_table", {MAC: 1}, n.action("to_cpu", 127)))
    t.read("the modified entry", exact(n, 1))
    t.modify("an entry that is not there", exact(n, 9))
    t.delete("both", exact(n, 1), exact(n, 0))
    t.delete("twice", exact(n, 1))
    t.read("nothing is left", p4r.TableEntry())


def match_kinds(t: Transcript) -> None:
    n = t.names
    t.insert("every kind", ternary(n))
    t.insert("most left out", ternary(n, {"smeta.ingress_port": 4}, priority=5))
    t.insert("the same key, other priority", ternary(n, priority=11))
    t.insert("largest priority", ternary(n, {"smeta.ingress_port": 5}, priority=0x7FFFFFFF))
    t.read("all", p4r.TableEntry(table_id=n.id("ternary_table")))
    t.read("one by key and priority", ternary(n, priority=11))
    t.delete("one by key and priority gone", ternary(n, priority=11))
    t.delete("wrong priority", ternary(n, priority=12))
    t.insert("prefixes", *(n.entry("lpm_table", {"hdr.ipv4.dst": p}, n.action("set_nexthop", 5))
                           for p in ((0x0A000000, 8), (0x0A010000, 16), (0x0A010203, 32))))  # fmt: skip
    t.insert("default route", n.entry("lpm_table", {}, n.action("set_nexthop", 6)))
    t.read("prefixes read", p4r.TableEntry(table_id=n.id("lpm_table")))
    t.insert("range and optional", n.entry("wide_table", {"hdr.ethernet.type": (0x600, 0x800), "smeta.ingress_port": 1},
                                           n.action("rewrite", 1, 2, 3), 1))  # fmt: skip
    t.read("range and optional read", p4r.TableEntry(table_id=n.id("wide_table")))


def raw(n: Names, table: str, *fields: p4r.FieldMatch, priority: int = 0) -> p4r.TableEntry:
    entry = n.entry(table, {}, n.action("drop"), priority)
    entry.match.extend(fields)
    return entry


def wrong_matches(t: Transcript) -> None:
    n = t.names
    match = p4r.FieldMatch
    t.insert(
        "one after the other",
        p4r.TableEntry(table_id=1),
        p4r.TableEntry(),
        p4r.TableEntry(table_id=n.id("drop")),
        raw(n, "exact_table"),
        raw(n, "exact_table", match(field_id=1)),
        raw(n, "exact_table", match(field_id=2, exact=match.Exact(value=b"\1"))),
        raw(n, "exact_table", match(field_id=1, exact=match.Exact(value=b"\1" * 7))),
        raw(n, "exact_table", match(field_id=1, lpm=match.LPM(value=b"\1", prefix_len=48))),
        raw(n, "exact_table", *[match(field_id=1, exact=match.Exact(value=b"\1"))] * 2),
        raw(n, "lpm_table", match(field_id=1, lpm=match.LPM(value=b"\0", prefix_len=0))),
        raw(n, "lpm_table", match(field_id=1, lpm=match.LPM(value=b"\1", prefix_len=33))),
        raw(n, "lpm_table", match(field_id=1, lpm=match.LPM(value=b"\1", prefix_len=-1))),
        raw(n, "lpm_table", match(field_id=1, lpm=match.LPM(value=b"\x0a\0\0\1", prefix_len=8))),
        raw(n, "exact_table", match(field_id=1, exact=match.Exact(value=b"\1")), priority=1),
        ternary(n, priority=0),
        ternary(n, {**TERNARY_KEY, "hdr.ethernet.src": (0, 0)}),
        ternary(n, {**TERNARY_KEY, "hdr.ethernet.src": (3, 1)}),
        ternary(n, {**TERNARY_KEY, "hdr.ipv4.protocol": (9, 8)}),
        ternary(n, {**TERNARY_KEY, "hdr.ipv4.protocol": (0, 255)}),
        ternary(n, {"hdr.ethernet.src": (1, 1)}),
    )
    t.read("nothing was written", p4r.TableEntry())
    t.insert("not canonical", raw(n, "exact_table", match(field_id=1, exact=match.Exact(value=b"\0\0\0\5"))))
    t.insert("empty value", raw(n, "exact_table", match(field_id=1, exact=match.Exact(value=b""))))
    t.read("canonical again", p4r.TableEntry())
    t.read("wrong key", raw(n, "exact_table", match(field_id=2, exact=match.Exact(value=b"\1"))))
    t.read("wrong table", p4r.TableEntry(table_id=3))


def wrong_actions(t: Transcript) -> None:
    n = t.names
    without = exact(n, 1)
    without.ClearField("action")
    indirect = exact(n, 2)
    indirect.action.action_profile_member_id = 1
    few = exact(n, 3)
    del few.action.action.params[:]
    strange = exact(n, 4)
    strange.action.action.params[0].param_id = 9
    large = exact(n, 5)
    large.action.action.params[0].value = b"\2\0"
    empty = exact(n, 6)
    empty.action.SetInParent()
    empty.action.ClearField("action")
    t.insert(
        "one after the other",
        without,
        indirect,
        few,
        strange,
        large,
        empty,
        n.entry("exact_table", {MAC: 7}, n.action("learn")),
        n.entry("exact_table", {MAC: 7}, p4r.Action(action_id=99)),
        n.entry("exact_table", {MAC: 7}, n.action("NoAction")),
        exact(n, 7, idle_timeout_ns=1),
        exact(n, 7, idle_timeout_ns=-1),
        exact(n, 7, time_since_last_hit=p4r.TableEntry.IdleTimeout()),
        exact(n, 7, meter_config=p4r.MeterConfig()),
        n.entry("idle_table", {"hdr.ethernet.src": 1}, n.action("NoAction"), counter_data=p4r.CounterData()),
        ternary(n, meter_config=p4r.MeterConfig(cir=-2)),
        ternary(n, meter_config=p4r.MeterConfig(cburst=1 << 32)),
        n.entry("selector_table", {"hdr.ipv4.dst": 1}, n.action("forward", 1)),
    )
    t.modify("without action", without)
    t.write("no type", (0, exact(n, 1)))
    t.write("no entity", (INSERT, p4r.Entity()))
    t.write("nothing at all")
    t.write("atomic", (INSERT, exact(n, 1)), atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    t.write("atomic in the data plane", (INSERT, exact(n, 1)), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
    t.read("nothing was written", p4r.TableEntry())
    t.read("nothing asked")
    t.read("an empty entity", p4r.Entity())


def full_and_const_tables(t: Transcript) -> None:
    n = t.names
    for k in range(5):
        t.insert(f"tiny {k}", n.entry("tiny_table", {"hdr.ethernet.type": k, "smeta.ingress_port": 1},
                                      n.action("drop")))  # fmt: skip
    entry = n.entry("const_table", {"hdr.ipv4.protocol": (17, 255)}, n.action("mirror"), 5)
    t.read("const entries", p4r.TableEntry(table_id=n.id("const_table")))
    t.insert("into a const table", entry)
    t.modify("in a const table", entry)
    t.delete("from a const table", entry)


def default_actions(t: Transcript) -> None:
    n = t.names
    t.read("all as compiled", p4r.TableEntry(is_default_action=True))
    wanted = n.default("exact_table", n.action("to_cpu", 9))
    wanted.controller_metadata, wanted.metadata = 3, b"x"
    t.modify("another default", wanted)
    t.read("the other default", n.default("exact_table"))
    t.modify("reset", n.default("exact_table"))
    t.read("the first again", n.default("exact_table"))
    t.insert("insert", wanted)
    t.delete("delete", n.default("exact_table"))
    t.modify("const default", n.default("lpm_table", n.action("drop")))
    t.modify("const default by its own action", n.default("lpm_table", n.action("NoAction")))
    t.modify("table-only action", n.default("exact_table", n.action("set_nexthop", 1)))
    t.modify("default of a selector", n.default("selector_table", n.action("forward", 1)))
    t.modify("default-only action", n.default("exact_table", n.action("NoAction")))
    keyed = exact(n, 1)
    keyed.is_default_action = True
    t.modify("with a key", keyed)
    prioritised = n.default("exact_table", n.action("drop"))
    prioritised.priority = 1
    t.modify("with a priority", prioritised)
    aged = n.default("idle_table")
    aged.time_since_last_hit.SetInParent()
    t.read("with an age", aged)


def members_and_groups(t: Transcript) -> None:
    n = t.names
    sel = "IngressImpl.selector"
    t.insert("members", *(n.member(sel, k, n.action("forward", k)) for k in (1, 2, 3)))
    t.insert("a member twice", n.member(sel, 1, n.action("forward", 9)))
    t.insert("groups", n.group(sel, 1, {1: 1, 2: 3}, 8), n.group(sel, 2))
    t.insert("a group twice", n.group(sel, 1))
    t.read("members read", p4r.ActionProfileMember())
    t.read("one member", n.member(sel, 2))
    t.read("no such member", n.member(sel, 9))
    t.read("groups read", p4r.ActionProfileGroup())
    t.read("one group", n.group(sel, 1))
    t.read("no such group", n.group(sel, 9))
    t.modify("a member's action", n.member(sel, 2, n.action("rewrite", 1, 2, 3)))
    t.modify("other weights", n.group(sel, 1, {2: 1, 3: 2}))
    t.modify("another size", n.group(sel, 1, {2: 1}, 9))
    t.read("after the change", p4r.ActionProfileGroup(), p4r.ActionProfileMember())
    by_group = p4r.TableEntry(table_id=n.id("selector_table"))
    by_group.match.add(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\1"))
    by_group.action.action_profile_group_id = 1
    by_member = p4r.TableEntry.FromString(by_group.SerializeToString())
    by_member.match[0].exact.value = b"\2"
    by_member.action.action_profile_member_id = 1
    t.insert("entries", by_group, by_member)
    t.read("entries read", p4r.TableEntry(table_id=by_group.table_id))
    t.delete("a group in use", n.group(sel, 1))
    t.delete("a member in a group", n.member(sel, 3))
    t.delete("a member in an entry", n.member(sel, 1))
    wrong_group = p4r.TableEntry.FromString(by_group.SerializeToString())
    wrong_group.match[0].exact.value = b"\3"
    wrong_group.action.action_profile_group_id = 7
    t.insert("an entry without group", wrong_group)
    t.modify("from group to member", _with_member(by_group, 3))
    t.delete("entries gone", by_group, by_member)
    t.delete("groups gone", n.group(sel, 1), n.group(sel, 2))
    t.delete("members gone", *(n.member(sel, k) for k in (1, 2, 3)))
    t.read("nothing is left", p4r.ActionProfileGroup(), p4r.ActionProfileMember(), p4r.TableEntry())


def _with_member(entry: p4r.TableEntry, member_id: int) -> p4r.TableEntry:
    other = p4r.TableEntry.FromString(entry.SerializeToString())
    other.action.action_profile_member_id = member_id
    return other


def wrong_members_and_groups(t: Transcript) -> None:
    n = t.names
    sel, prof = "IngressImpl.selector", "IngressImpl.profile"
    t.insert("a member", n.member(sel, 1, n.action("forward", 1)), n.member(prof, 1, n.action("drop")))
    t.insert(
        "members",
        p4r.ActionProfileMember(),
        p4r.ActionProfileMember(action_profile_id=5, member_id=1),
        n.member(sel, 2),
        n.member(sel, 2, n.action("drop")),
        n.member(sel, 2, p4r.Action(action_id=n.id("forward"))),
    )
    t.modify("no such member", n.member(sel, 9, n.action("forward", 1)))
    t.delete("no such member either", n.member(sel, 9))
    t.insert(
        "groups",
        p4r.ActionProfileGroup(),
        n.group(sel, 2, {1: 0}),
        n.group(sel, 3, {1: -1}),
        n.group(sel, 4, max_size=-1),
        n.group(sel, 5, max_size=17),
        n.group(sel, 6, {1: 5}, 4),
        n.group(sel, 7, {1: 17}),
    )
    twice = n.group(sel, 9, {1: 1})
    twice.members.append(twice.members[0])
    t.modify("no such group", n.group(sel, 99))
    t.delete("no such group either", n.group(sel, 99))
    t.insert("a fresh group", n.group(sel, 10))
    twice.group_id = 10
    t.modify("a member twice in it", twice)
    t.modify("an unknown member in it", n.group(sel, 10, {8: 1}))
    t.read("the group is as it was", n.group(sel, 10))
    t.insert("a group in a profile without selector", n.group(prof, 1, {1: 1}))


def oneshot(t: Transcript) -> None:
    n = t.names
    entry = p4r.TableEntry(table_id=n.id("selector_table"))
    entry.match.add(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\1"))
    actions = entry.action.action_profile_action_set.action_profile_actions
    actions.add(action=n.action("forward", 2), weight=2)
    actions.add(action=n.action("rewrite", 1, 2, 3), weight=1, watch_port=b"\1")
    t.insert("a set", entry)
    t.read("as written", p4r.TableEntry(table_id=entry.table_id))
    t.insert("a member beside it", n.member("IngressImpl.selector", 1, n.action("forward", 1)))
    t.read("members beside it", p4r.ActionProfileMember(action_profile_id=n.id("IngressImpl.selector")))
    del actions[1]
    actions[0].weight = 3
    t.modify("another set", entry)
    t.read("as changed", p4r.TableEntry(table_id=entry.table_id))
    second = p4r.TableEntry.FromString(entry.SerializeToString())
    second.match[0].exact.value = b"\2"
    for label, change in (
        ("no weight", lambda a: setattr(a[0], "weight", 0)),
        ("too heavy", lambda a: setattr(a[0], "weight", 17)),
        ("foreign action", lambda a: a[0].action.CopyFrom(n.action("drop"))),
        ("empty", lambda a: a.__delitem__(slice(None))),
    ):
        wrong = p4r.TableEntry.FromString(second.SerializeToString())
        change(wrong.action.action_profile_action_set.action_profile_actions)
        t.insert(label, wrong)
    t.delete("the entry", entry)
    t.insert("now a member", n.member("IngressImpl.selector", 1, n.action("forward", 1)))
    t.insert("now no set", second)


def counters(t: Transcript) -> None:
    n = t.names

    def cell(name: str, index: int | None, packets: int = 0, octets: int = 0) -> p4r.CounterEntry:
        message = p4r.CounterEntry(counter_id=n.id(name))
        if index is not None:
            message.index.index = index
        if packets or octets:
            message.data.packet_count, message.data.byte_count = packets, octets
        return message

    t.modify("cells", cell("port_counter", 1, 5, 600), cell("packet_counter", 1, 5, 600), cell("byte_counter", 1, 5, 6))
    t.read("one", cell("port_counter", 1))
    t.read("one array", cell("packet_counter", None))
    t.read("all arrays", p4r.CounterEntry())
    t.delete("cleared", cell("port_counter", 1))
    t.read("zero again", cell("port_counter", 1))
    t.insert("insert", cell("port_counter", 1, 1, 1))
    t.modify("wildcard", cell("port_counter", None, 1, 1))
    t.modify("negative", cell("port_counter", -1, 1, 1))
    t.modify("beyond the end", cell("port_counter", 64, 1, 1))
    t.read("read beyond the end", cell("port_counter", 64))
    t.read("read negative", cell("port_counter", -1))
    t.modify("no such counter", p4r.CounterEntry(counter_id=4))
    t.read("no such counter to read", p4r.CounterEntry(counter_id=4))
    t.read("a direct one by index", p4r.CounterEntry(counter_id=n.id("exact_counter")))
    t.insert("an entry", exact(n, 1), exact(n, 2))
    direct = p4r.DirectCounterEntry(table_entry=exact(n, 1), data=p4r.CounterData(packet_count=3, byte_count=4))
    t.modify("direct", direct)
    t.read("direct read", p4r.DirectCounterEntry(table_entry=exact(n, 1)))
    t.read("direct of the table", p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=n.id("exact_table"))))
    asked = p4r.TableEntry(table_id=n.id("exact_table"), counter_data=p4r.CounterData())
    t.read("with the entries", asked)
    t.delete("direct cleared", p4r.DirectCounterEntry(table_entry=exact(n, 1)))
    t.insert("direct inserted", direct)
    t.modify("direct without entry", p4r.DirectCounterEntry())
    t.modify("direct of no entry", p4r.DirectCounterEntry(table_entry=exact(n, 9)))
    t.modify("direct of the default", p4r.DirectCounterEntry(table_entry=n.default("exact_table")))
    t.read("direct of the default read", p4r.DirectCounterEntry(table_entry=n.default("exact_table")))
    t.read("direct of no entry read", p4r.DirectCounterEntry(table_entry=exact(n, 9)))
    t.read("direct of all tables", p4r.DirectCounterEntry(table_entry=p4r.TableEntry()))
    t.read("direct where there is none", p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=n.id("lpm_table"))))
    t.read("direct without entry read", p4r.DirectCounterEntry())


def meters(t: Transcript) -> None:
    n = t.names
    config = p4r.MeterConfig(cir=100, cburst=10, pir=200, pburst=20)

    def cell(index: int | None, wanted: p4r.MeterConfig | None = None) -> p4r.MeterEntry:
        message = p4r.MeterEntry(meter_id=n.id("port_meter"), config=wanted)
        if index is not None:
            message.index.index = index
        return message

    t.read("never set", cell(1))
    t.modify("set", cell(1, config))
    t.read("set and read", cell(1))
    t.read("the array", cell(None))
    t.read("all arrays", p4r.MeterEntry())
    t.modify("reset", cell(1))
    t.read("reset and read", cell(1))
    t.modify("all green", cell(1, p4r.MeterConfig(cir=-1, cburst=-1, pir=-1, pburst=-1)))
    t.read("all green read", cell(1))
    t.modify("zero rates", cell(2, p4r.MeterConfig()))
    t.read("zero rates read", cell(2))
    t.insert("insert", cell(1, config))
    t.delete("delete", cell(1))
    t.modify("wildcard", cell(None, config))
    t.modify("negative index", cell(-1, config))
    t.modify("beyond the end", cell(8, config))
    t.read("read beyond the end", cell(8))
    t.modify("negative rate", cell(1, p4r.MeterConfig(cir=-2)))
    t.modify("negative burst", cell(1, p4r.MeterConfig(pburst=-2)))
    t.modify("large burst", cell(1, p4r.MeterConfig(pburst=1 << 32)))
    t.modify("peak below committed", cell(1, p4r.MeterConfig(cir=200, cburst=10, pir=100, pburst=10)))
    t.read("a direct one by index", p4r.MeterEntry(meter_id=n.id("ternary_meter")))
    t.read("no such meter", p4r.MeterEntry(meter_id=4))
    t.insert("an entry", ternary(n, meter_config=config))
    t.read("with the entry", p4r.TableEntry(table_id=n.id("ternary_table"), meter_config=p4r.MeterConfig()))
    t.modify("direct", p4r.DirectMeterEntry(table_entry=ternary(n), config=config))
    t.read("direct read", p4r.DirectMeterEntry(table_entry=ternary(n)))
    t.modify("direct reset", p4r.DirectMeterEntry(table_entry=ternary(n)))
    t.read("direct of the table", p4r.DirectMeterEntry(table_entry=p4r.TableEntry(table_id=n.id("ternary_table"))))
    t.insert("direct inserted", p4r.DirectMeterEntry(table_entry=ternary(n), config=config))
    t.modify("direct of no entry", p4r.DirectMeterEntry(table_entry=ternary(n, priority=9), config=config))
    t.modify("direct of the default", p4r.DirectMeterEntry(table_entry=n.default("ternary_table"), config=config))
    t.modify("direct where there is none", p4r.DirectMeterEntry(table_entry=n.default("lpm_table"), config=config))
    t.read("direct of all tables", p4r.DirectMeterEntry(table_entry=p4r.TableEntry()))


def replication(t: Transcript) -> None:
    def group(number: int, *replicas: tuple[int, int], **fields: Any) -> p4r.MulticastGroupEntry:
        made = [p4r.Replica(egress_port=port, instance=instance) for port, instance in replicas]
        return p4r.MulticastGroupEntry(multicast_group_id=number, replicas=made, **fields)

    def session(number: int, *replicas: tuple[int, int], **fields: Any) -> p4r.CloneSessionEntry:
        made = [p4r.Replica(egress_port=port, instance=instance) for port, instance in replicas]
        return p4r.CloneSessionEntry(session_id=number, replicas=made, **fields)

    t.insert("a group", group(1, (2, 2), (1, 1), (3, 1)))
    t.insert("the group again", group(1, (1, 1)))
    by_name = p4r.MulticastGroupEntry(multicast_group_id=2, replicas=[p4r.Replica(port=b"\0\1", instance=1)])
    t.insert("ports as byte strings", by_name)
    t.insert("no replicas", group(3))
    t.read("groups", p4r.MulticastGroupEntry())
    t.read("one group", group(1))
    t.read("no such group", group(9))
    t.read("group beyond the end", group(1 << 15))
    t.modify("other replicas", group(1, (4, 1), (2, 2)))
    t.read("as changed", group(1))
    t.modify("no such group to change", group(9, (1, 1)))
    t.delete("no such group to delete", group(9))
    t.insert("group 0, beyond the end", group(0, (1, 1)), group(1 << 15, (1, 1)))
    t.insert("a replica twice", group(8, (1, 1), (1, 1)))
    t.insert("a replica without port", p4r.MulticastGroupEntry(multicast_group_id=8, replicas=[p4r.Replica()]))
    for label, port in (
        ("empty port", b""),
        ("long port", b"\0\0\0\0\1"),
        ("port 0", b"\0"),
        ("negative port", b"\xff" * 4),
    ):
        t.insert(label, p4r.MulticastGroupEntry(multicast_group_id=8, replicas=[p4r.Replica(port=port)]))
    t.insert("an empty entry", p4r.PacketReplicationEngineEntry())
    t.read("an empty entry to read", p4r.PacketReplicationEngineEntry())
    t.insert("sessions", session(5, (1, 1)), session(6, (2, 1), (1, 1)))
    t.insert("a session again", session(5, (1, 1)))
    t.insert("session 0, beyond the end", session(0, (1, 1)), session(1 << 15, (1, 1)))
    t.insert("with a class of service", session(7, (1, 1), class_of_service=1))
    t.read("sessions read", p4r.CloneSessionEntry())
    t.read("one session", session(6))
    t.read("no such session", session(9))
    t.modify("another port", session(5, (3, 1)))
    t.modify("no such session to change", session(9, (3, 1)))
    t.delete("no such session to delete", session(9))
    t.read("session as changed", session(5))
    t.delete("everything", session(5), session(6), group(1), group(2), group(3))
    t.read("nothing is left", p4r.MulticastGroupEntry(), p4r.CloneSessionEntry())


def digests(t: Transcript) -> None:
    config = p4r.DigestEntry.Config(max_timeout_ns=1_000_000_000, max_list_size=10, ack_timeout_ns=1_000_000_000)
    digest = p4r.DigestEntry(digest_id=t.names.id("learn_t"), config=config)
    t.read("not configured", digest)
    t.modify("modify before insert", digest)
    t.insert("insert", digest)
    t.read("configured", digest)
    t.insert("insert again", digest)
    digest.config.max_list_size = 1
    t.modify("modify", digest)
    t.read("modified", digest)
    t.write("no type", (0, digest))
    t.read("wildcard", p4r.DigestEntry())
    t.insert("no such digest", p4r.DigestEntry(digest_id=4))
    t.read("no such digest to read", p4r.DigestEntry(digest_id=4))
    t.delete("delete", digest)
    t.delete("delete again", digest)


def not_served(t: Transcript) -> None:
    n = t.names
    register = p4r.RegisterEntry(register_id=n.id("last_seen"))
    values = p4r.ValueSetEntry(value_set_id=n.id("extra_types"))
    t.write("writes", (MODIFY, register), (MODIFY, values), (INSERT, p4r.ExternEntry()), (DELETE, register))
    t.read("registers", register)
    t.read("value sets", values)


def pipeline(t: Transcript) -> None:
    c = t.client
    stored = c.get_pipeline()
    config = stored.p4_device_config
    t.do("p4info as sent", lambda: str(stored.p4info == t.names.p4info))
    t.do("cookie only", lambda: c.get_pipeline(GetRequest.COOKIE_ONLY))
    t.do("set with a cookie", lambda: c.set_pipeline(config, cookie=77))
    t.do("that cookie", lambda: c.get_pipeline(GetRequest.COOKIE_ONLY))
    t.do("p4info and cookie", lambda: _shape(c.get_pipeline(GetRequest.P4INFO_AND_COOKIE)))
    t.do("config and cookie", lambda: _shape(c.get_pipeline(GetRequest.DEVICE_CONFIG_AND_COOKIE)))
    t.do("unknown response type", lambda: c.get_pipeline(9))
    t.insert("an entry", exact(t.names, 1))
    t.do("verify", lambda: c.set_pipeline(config, SetRequest.VERIFY))
    t.read("verifying changes nothing", p4r.TableEntry())
    t.do("no action", lambda: c.set_pipeline(config, SetRequest.UNSPECIFIED))
    t.do("commit of nothing saved", lambda: c.set_pipeline(b"", SetRequest.COMMIT))
    t.do("the same again", lambda: c.set_pipeline(config, cookie=78))
    t.read("entries are gone", p4r.TableEntry())
    t.do("save", lambda: c.set_pipeline(config, SetRequest.VERIFY_AND_SAVE, cookie=79))
    t.do("the saved cookie", lambda: c.get_pipeline(GetRequest.COOKIE_ONLY))
    t.insert("an entry for later", exact(t.names, 2))
    t.read("entries of the saved pipeline", p4r.TableEntry())
    t.do("commit", lambda: c.set_pipeline(b"", SetRequest.COMMIT))
    t.read("that entry", p4r.TableEntry())
    t.do("the committed cookie", lambda: c.get_pipeline(GetRequest.COOKIE_ONLY))
    t.do("no JSON", lambda: c.set_pipeline(b"nonsense"))  # the end: BMv2 takes no other pipeline after it


def _shape(config: p4r.ForwardingPipelineConfig) -> dict[str, Any]:
    return {
        "p4info": config.HasField("p4info"),
        "config": bool(config.p4_device_config),
        "cookie": config.cookie.cookie,
    }


def arbitration(t: Transcript) -> None:
    """The client is primary with election id 1."""
    second = StreamClient(t.client.stub)
    second.arbitrate(0)
    t.stream("a backup", second)
    third = StreamClient(t.client.stub)
    third.arbitrate(1)
    t.stream("the primary's election id", third)
    assert t.client.stream is not None
    second.arbitrate(5)
    t.stream("the backup takes over", second)
    t.stream("the old primary is told", t.client.stream)
    t.insert("a write of the old primary", exact(t.names, 1))
    t.read("a read of the old primary", p4r.TableEntry())
    t.do("a pipeline of the old primary", lambda: t.client.set_pipeline(b""))
    second.arbitrate(5, device_id=2)
    t.stream("another device on the stream", second)
    t.stream("the first is primary again", t.client.stream)
    t.insert("a write as primary", exact(t.names, 1))
    fourth = StreamClient(t.client.stub)
    fourth.arbitrate((3 << 64) + 1)
    t.stream("a wide election id", fourth)
    t.stream("the first is backup", t.client.stream)
    fourth.hang_up()
    t.stream("the first is primary after the hang-up", t.client.stream)
    backups = []
    for k in range(16):
        stream = StreamClient(t.client.stub)
        stream.arbitrate(1000 + k)
        backups.append(stream)
        t.stream(f"controller {k + 2}", stream)
    t.client.stream.hang_up()


WITH_PORTS = set(TRAFFIC_CASES)

CASES: dict[str, Callable[[Transcript], None]] = {
    case.__name__: case
    for case in (
        table_entries, match_kinds, wrong_matches, wrong_actions, full_and_const_tables, default_actions,
        members_and_groups, wrong_members_and_groups, oneshot, counters, meters, replication,
        digests, not_served, pipeline, arbitration,
    )
} | TRAFFIC_CASES  # fmt: skip

RECORDINGS = Path(__file__).parent / "recordings" / "p4runtime"

# (case, step): what differs, and why. The difference itself is asserted too, so that none outlives its reason.
EXCEPTIONS = {
    ("wrong_matches", "one after the other"): "PI misspells one message",
    ("members_and_groups", "members read"): "PI gives a member once for each of its weighted copies",
    ("members_and_groups", "after the change"): "PI gives a member once for each of its weighted copies",
    ("wrong_members_and_groups", "a group in a profile without selector"): "BMv2 makes a group that no table can use",
    ("not_served", "writes"): "PI repeats the message of the update before for externs",
    ("pipeline", "no JSON"): "BMv2 dies inside of the RPC, gRPC answers for it",
    ("replication", "long port"): "PI does not fill in its format string",
}


def unexcused(case: str, found: list[Step], is_bmv2: bool = False) -> list[str]:
    """Return the differences from the recording, without the exceptions; an exception without effect is listed too."""
    recorded = json.loads((RECORDINGS / f"{case}.json").read_text())
    lines = differences(recorded, json.loads(json.dumps(found)))
    excused = set() if is_bmv2 else {step for name, step in EXCEPTIONS if name == case}
    differing = {line.split(":")[0] for line in lines}
    needless = [f"{step}: no longer differs" for step in sorted(excused - differing)]
    return [line for line in lines if line.split(":")[0] not in excused] + needless
