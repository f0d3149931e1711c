"""Setting, saving, committing and reconciling pipelines."""

import json
from typing import Any

import pytest
from finsy.proto import p4i, p4r
from p4runtime_client import Client, RefusedError, SetRequest
from p4runtime_fixtures import NAMES, P4INFO, PROGRAM_JSON, Running, primary, running

from mrclab.softswitch.objects.runtime_api import CounterValue, RuntimeApiError
from mrclab.softswitch.objects.tables import RuntimeTable
from mrclab.softswitch.p4.program import Program
from mrclab.softswitch.p4runtime.p4info import P4Index, P4InfoError

__all__ = ["primary", "running"]

GetRequest = p4r.GetForwardingPipelineConfigRequest


EXACT = p4r.TableEntry(table_id=NAMES.id("exact_table"))


def entry(mac: int) -> p4r.TableEntry:
    return NAMES.entry("exact_table", {"hdr.ethernet.dst": mac}, NAMES.action("drop"))


def test_before_a_pipeline_everything_else_is_refused(running: Running) -> None:
    with running.client() as client:
        client.become_primary()
        for call in (client.write, client.read, client.get_pipeline):
            with pytest.raises(RefusedError, match="FAILED_PRECONDITION: No forwarding pipeline config set"):
                call()


def test_the_parts_of_the_configuration_come_back_as_asked(primary: Client) -> None:
    primary.set_pipeline(PROGRAM_JSON, cookie=0)
    full = primary.get_pipeline()
    assert (full.p4info, full.p4_device_config) == (P4INFO, PROGRAM_JSON)
    assert full.HasField("cookie")
    only = primary.get_pipeline(GetRequest.COOKIE_ONLY)
    assert not only.HasField("p4info")
    assert not only.p4_device_config
    assert primary.get_pipeline(GetRequest.P4INFO_AND_COOKIE).p4info == P4INFO
    assert primary.get_pipeline(GetRequest.DEVICE_CONFIG_AND_COOKIE).p4_device_config == PROGRAM_JSON
    primary.set_pipeline(PROGRAM_JSON)
    assert not primary.get_pipeline().HasField("cookie")


def test_saving_leaves_the_running_pipeline_alone_until_commit(primary: Client, running: Running) -> None:
    primary.insert(entry(1), p4r.MulticastGroupEntry(multicast_group_id=1))
    forwards = running.switch.instance
    primary.set_pipeline(PROGRAM_JSON, SetRequest.VERIFY_AND_SAVE, cookie=9)
    assert primary.read(EXACT) == []
    assert primary.read(p4r.MulticastGroupEntry()) == []
    assert primary.get_pipeline(GetRequest.COOKIE_ONLY).cookie.cookie == 9
    assert running.switch.instance is forwards
    primary.insert(entry(1), entry(2), p4r.MulticastGroupEntry(multicast_group_id=4))
    assert len(forwards.tables["IngressImpl.exact_table"].entries()) == 1
    assert list(running.switch.instance.replication.groups) == [1]
    primary.set_pipeline(b"", SetRequest.COMMIT, p4info=p4i.P4Info())
    assert running.switch.instance is not forwards
    assert len(running.switch.instance.tables["IngressImpl.exact_table"].entries()) == 2
    assert list(running.switch.instance.replication.groups) == [4]
    assert len(primary.read(EXACT)) == 2
    assert primary.get_pipeline(GetRequest.COOKIE_ONLY).cookie.cookie == 9
    with pytest.raises(RefusedError, match="UNKNOWN: Error in second phase of device update"):
        primary.set_pipeline(b"", SetRequest.COMMIT, p4info=p4i.P4Info())


def test_a_packet_out_crosses_the_running_pipeline_and_not_the_saved_one(primary: Client, running: Running) -> None:
    primary.set_pipeline(PROGRAM_JSON, SetRequest.VERIFY_AND_SAVE)
    crossed = []

    def watch() -> None:
        for name, instance in (("running", running.switch.instance), ("saved", running.switch.program())):
            instance.ingress = lambda *_, name=name: crossed.append(name)
        running.switch.packet_out(bytes(60))

    running.switch.run(watch)
    assert crossed == ["running"]


def test_a_second_pipeline_takes_the_place_of_the_saved_one(primary: Client) -> None:
    primary.set_pipeline(PROGRAM_JSON, SetRequest.VERIFY_AND_SAVE, cookie=1)
    primary.insert(entry(1))
    primary.set_pipeline(PROGRAM_JSON, SetRequest.VERIFY_AND_SAVE, cookie=2)
    assert primary.read(EXACT) == []
    primary.insert(entry(2))
    primary.set_pipeline(PROGRAM_JSON, SetRequest.VERIFY_AND_COMMIT, cookie=3)
    assert primary.read(EXACT) == []
    with pytest.raises(RefusedError, match="no config is saved"):
        primary.set_pipeline(b"", SetRequest.COMMIT, p4info=p4i.P4Info())


def without(change: Any) -> p4i.P4Info:
    info = p4i.P4Info()
    info.CopyFrom(P4INFO)
    change(info)
    return info


@pytest.mark.parametrize(
    ("config", "p4info", "text"),
    [
        (b"nonsense", None, "Error in first phase of device update"),
        (b"", None, "Error in first phase of device update"),
        (b"\x08\x01\x1a\xff\xff\xff\xff\x0f", None, "Error in first phase of device update"),
        (PROGRAM_JSON, without(lambda i: i.tables[0].preamble.ClearField("id")), "Error when importing p4info: object"),
        (PROGRAM_JSON, without(lambda i: i.tables.append(i.tables[0])), "is given to both"),
        (PROGRAM_JSON, without(lambda i: i.actions.__delitem__(0)), "which is not defined"),
        (PROGRAM_JSON, without(lambda i: setattr(i.tables[0].preamble, "name", "other")),
         "table 'other' is not in the device configuration"),
        (PROGRAM_JSON, without(lambda i: setattr(i.counters[0].preamble, "name", "other")),
         "counter 'other' is not in the device configuration"),
        (PROGRAM_JSON, without(lambda i: setattr(i.tables[0].match_fields[0], "match_type", 0)), "has no match type"),
        (PROGRAM_JSON, without(lambda i: i.tables[0].match_fields.__delitem__(0)), "the key of table"),
        (PROGRAM_JSON, without(lambda i: setattr(i.tables[0].match_fields[0], "match_type", p4i.MatchField.TERNARY)),
         "is exact in the device configuration, ternary in P4Info"),
        (PROGRAM_JSON, without(lambda i: i.actions[1].params.add(id=77)), "parameters in the device configuration"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("action", [SetRequest.VERIFY_AND_COMMIT, SetRequest.RECONCILE_AND_COMMIT])
def test_a_bad_configuration_changes_nothing(
    primary: Client, config: bytes, p4info: p4i.P4Info | None, text: str, action: int
) -> None:
    primary.insert(entry(1))
    with pytest.raises(RefusedError) as caught:
        primary.set_pipeline(config, action, p4info=p4info)
    assert caught.value.code == "UNKNOWN"
    assert text in caught.value.message
    assert primary.read(EXACT) == [entry(1)]


def test_a_long_message_is_cut_to_what_trailers_hold(primary: Client) -> None:
    def rename(info: p4i.P4Info) -> None:
        info.tables[0].preamble.name = "x" * 20_000

    with pytest.raises(RefusedError, match=r"UNKNOWN: Error in first phase of device update: table 'x+…") as caught:
        primary.set_pipeline(PROGRAM_JSON, p4info=without(rename))
    assert len(caught.value.message) == 1001


def test_a_table_without_a_key_that_the_compiler_left_out_stands_in_nobodys_way(primary: Client) -> None:
    def add(info: p4i.P4Info) -> None:
        table = info.tables.add(size=1024)
        table.preamble.id, table.preamble.name = 0x02FFFF01, "IngressImpl.nothing"

    primary.set_pipeline(PROGRAM_JSON, p4info=without(add))
    primary.insert(entry(1))
    assert primary.read(EXACT) == [entry(1)]
    assert entry(1) in primary.read(p4r.TableEntry())
    for request in (primary.read, primary.modify):
        with pytest.raises(RefusedError) as caught:
            request(p4r.TableEntry(table_id=0x02FFFF01, is_default_action=True))
        [(code, text)] = [(caught.value.code, caught.value.message)] if request == primary.read else [
            (caught.value.codes[0], caught.value.errors[0].message)
        ]  # fmt: skip
        assert (code, "p4c leaves it out" in text) == ("FAILED_PRECONDITION", True)


def test_the_wrapper_of_old_tools_is_unwrapped(primary: Client) -> None:
    length = len(PROGRAM_JSON)
    size = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
    primary.set_pipeline(b"\x08\x01\x1a" + size + PROGRAM_JSON)
    primary.insert(entry(1))


def test_reconciling_keeps_what_controllers_wrote(primary: Client, running: Running) -> None:
    sel = "IngressImpl.selector"
    primary.insert(NAMES.member(sel, 4, NAMES.action("forward", 1)), NAMES.member(sel, 2, NAMES.action("forward", 2)))
    primary.insert(NAMES.group(sel, 3, {4: 2, 2: 1}, 8))
    by_group = p4r.TableEntry(table_id=NAMES.id("selector_table"), metadata=b"note")
    by_group.match.add(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\1"))
    by_group.action.action_profile_group_id = 3
    by_set = p4r.TableEntry(table_id=NAMES.id("profile_table"))
    by_set.match.add(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\1"))
    by_set.action.action_profile_action_set.action_profile_actions.add(action=NAMES.action("drop"), weight=1)
    replica = p4r.Replica(egress_port=1, instance=1)
    digest = p4r.DigestEntry(digest_id=NAMES.id("learn_t"), config=p4r.DigestEntry.Config(max_list_size=5))
    primary.insert(
        by_group,
        entry(1),
        p4r.MulticastGroupEntry(multicast_group_id=1, replicas=[replica]),
        p4r.CloneSessionEntry(session_id=5, replicas=[replica]),
        digest,
    )
    cell = p4r.MeterEntry(meter_id=NAMES.id("port_meter"), config=p4r.MeterConfig(cir=1, cburst=1, pir=2, pburst=2))
    cell.index.index = 3
    primary.modify(NAMES.default("exact_table", NAMES.action("to_cpu", 5)), cell)
    running.switch.run(
        lambda: running.switch.program().counter_write("IngressImpl.port_counter", 7, CounterValue(5, 6))
    )
    everything = (p4r.ActionProfileMember(), p4r.ActionProfileGroup(), p4r.TableEntry(), p4r.MeterEntry(),
                  p4r.CounterEntry(), p4r.MulticastGroupEntry(), p4r.CloneSessionEntry(), digest,
                  p4r.TableEntry(is_default_action=True))  # fmt: skip
    before = primary.read(*everything)
    primary.set_pipeline(PROGRAM_JSON, SetRequest.RECONCILE_AND_COMMIT, cookie=4)
    assert primary.read(*everything) == before
    assert primary.get_pipeline(GetRequest.COOKIE_ONLY).cookie.cookie == 4


def test_reconciling_keeps_what_runs_and_not_what_waits_for_a_commit(primary: Client) -> None:
    primary.insert(entry(1))
    primary.set_pipeline(PROGRAM_JSON, SetRequest.VERIFY_AND_SAVE)
    primary.insert(entry(2))
    primary.set_pipeline(PROGRAM_JSON, SetRequest.RECONCILE_AND_COMMIT)
    assert primary.read(EXACT) == [entry(1)]
    with pytest.raises(RefusedError, match="no config is saved"):
        primary.set_pipeline(b"", SetRequest.COMMIT, p4info=p4i.P4Info())


def test_a_default_action_that_was_reset_is_the_new_programs(primary: Client) -> None:
    program = json.loads(PROGRAM_JSON)
    [table] = [t for p in program["pipelines"] for t in p["tables"] if t["name"] == "IngressImpl.exact_table"]
    of_table = dict(zip(table["actions"], table["action_ids"], strict=True))
    table["default_entry"]["action_id"] = of_table["IngressImpl.drop"]
    primary.modify(NAMES.default("exact_table", NAMES.action("to_cpu", 5)))
    primary.modify(NAMES.default("exact_table"))
    primary.set_pipeline(json.dumps(program).encode(), SetRequest.RECONCILE_AND_COMMIT)
    assert primary.read(NAMES.default("exact_table")) == [NAMES.default("exact_table", NAMES.action("drop"))]


def test_reconciling_what_the_new_program_cannot_hold_changes_nothing(primary: Client) -> None:
    primary.insert(entry(1))
    fewer = without(lambda i: i.tables.remove(next(t for t in i.tables if t.preamble.alias == "exact_table")))
    with pytest.raises(RefusedError, match="UNKNOWN: Error when reconciling config: Invalid P4 id"):
        primary.set_pipeline(PROGRAM_JSON, SetRequest.RECONCILE_AND_COMMIT, p4info=fewer)
    assert primary.read(EXACT) == [entry(1)]
    primary.set_pipeline(PROGRAM_JSON, p4info=fewer)


def test_a_commit_that_the_data_plane_refuses_is_reported(
    primary: Client, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeApiError("no ports")

    primary.insert(entry(1))
    monkeypatch.setattr(running.switch, "commit", refuse)
    with pytest.raises(RefusedError, match="UNKNOWN: Error in second phase of device update: no ports"):
        primary.set_pipeline(PROGRAM_JSON)
    assert primary.read(EXACT) == [entry(1)]


def test_an_unexpected_exception_is_an_internal_error_and_not_the_end(
    primary: Client, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(RuntimeTable, "insert_plain", fail)
    with pytest.raises(RefusedError) as caught:
        primary.insert(entry(1), NAMES.member("IngressImpl.profile", 1, NAMES.action("drop")))
    assert caught.value.codes == ["INTERNAL", "OK"]
    assert len(primary.read(p4r.ActionProfileMember())) == 1


def test_translated_widths_are_the_data_planes(running: Running) -> None:
    def translate(info: p4i.P4Info) -> None:
        for action in info.actions:
            for param in action.params:
                param.bitwidth = 32

    index = P4Index.build(without(translate), running.switch.compile(PROGRAM_JSON).program)
    assert [p.width for p in index.actions_by_name["IngressImpl.rewrite"].params] == [48, 48, 9]


def test_a_translated_string_has_no_width(running: Running) -> None:
    strings = without(lambda i: [p.ClearField("bitwidth") for a in i.actions for p in a.params])
    index = P4Index.build(strings, running.switch.compile(PROGRAM_JSON).program)
    assert [p.width for p in index.actions_by_name["IngressImpl.rewrite"].params] == [0, 0, 0]


def test_every_object_must_be_in_the_program() -> None:
    with pytest.raises(P4InfoError, match="is not in the device configuration"):
        P4Index.build(P4INFO, Program())
