"""Table entries through the P4Runtime server, with the codes that PI gives."""

from typing import Any

import pytest
from finsy.proto import p4r
from p4runtime_client import DELETE, INSERT, MAC, MODIFY, TERNARY_KEY, Client, RefusedError
from p4runtime_fixtures import NAMES, Running, primary, running

from mrclab.softswitch.objects.runtime_api import ActionCall, CounterValue, MeterConfig

__all__ = ["primary", "running"]


def exact(mac: int = 0x0A, action: p4r.Action | None = None, **fields: Any) -> p4r.TableEntry:
    return NAMES.entry("exact_table", {MAC: mac}, action or NAMES.action("count_exact", 3), **fields)


def ternary(match: dict[str, Any] | None = None, priority: int = 10, **fields: Any) -> p4r.TableEntry:
    chosen = TERNARY_KEY if match is None else match
    return NAMES.entry("ternary_table", chosen, NAMES.action("colour", 3), priority, **fields)


def raw_match(table: str, **kinds: Any) -> p4r.TableEntry:
    """An entry for a table with one match field, that field as given."""
    entry = NAMES.entry(table, {}, NAMES.action("drop"))
    entry.match.add(field_id=1, **kinds)
    return entry


def read_all(client: Client) -> list[p4r.TableEntry]:
    """All entries but those that the program itself has."""
    return [entry for entry in client.read(p4r.TableEntry()) if entry.table_id != NAMES.id("const_table")]


def refusal(client: Client, *updates: tuple[int, Any]) -> list[tuple[str, str]]:
    """Code and message per update of a Write that must fail."""
    with pytest.raises(RefusedError) as caught:
        client.write(*updates)
    assert (caught.value.code, caught.value.message) == ("UNKNOWN", "")
    return list(zip(caught.value.codes, (e.message for e in caught.value.errors), strict=True))


def test_an_exact_entry_is_inserted_read_modified_and_deleted(primary: Client, running: Running) -> None:
    entry = exact()
    primary.insert(entry)
    assert primary.read(p4r.TableEntry(table_id=entry.table_id)) == [entry]
    [held] = running.entries("IngressImpl.exact_table")
    assert (held.match, held.action) == ((0x0A,), ("IngressImpl.count_exact", (3,)))
    changed = exact(action=NAMES.action("drop"), metadata=b"m", controller_metadata=5)
    primary.modify(changed)
    assert primary.read(entry) == [changed]
    primary.delete(entry)
    assert read_all(primary) == []


def test_every_match_kind_travels_both_ways(primary: Client, running: Running) -> None:
    entry = ternary()
    primary.insert(entry)
    [held] = running.entries("IngressImpl.ternary_table")
    assert held.match == ((0x0A00, 0xFF00), 4, (0x0A000000, 8), (6, 17), (4, 0xFF))
    assert held.priority == 10
    assert primary.read(p4r.TableEntry(table_id=entry.table_id)) == [entry]


def test_left_out_fields_match_everything_and_stay_left_out(primary: Client, running: Running) -> None:
    entry = ternary({"smeta.ingress_port": 4})
    primary.insert(entry)
    [held] = running.entries("IngressImpl.ternary_table")
    assert held.match == ((0, 0), 4, (0, 0), (0, 255), (0, 0))
    assert primary.read(entry) == [entry]


def test_the_same_key_with_another_priority_is_another_entry(primary: Client) -> None:
    primary.insert(ternary(priority=1), ternary(priority=2))
    assert [e.priority for e in primary.read(ternary(priority=2))] == [2]
    primary.delete(ternary(priority=2))
    assert [e.priority for e in primary.read(ternary(priority=0x7FFFFFFF), ternary(priority=1))] == [1]


@pytest.mark.parametrize("value", [b"\x0a", b"\x00\x0a", b"\x00" * 20 + b"\x0a"])
def test_byte_strings_of_any_length_are_read_back_canonical(primary: Client, value: bytes) -> None:
    entry = exact()
    entry.match[0].exact.value = value
    primary.insert(entry)
    assert read_all(primary) == [exact()]


def test_zero_is_one_zero_byte(primary: Client) -> None:
    entry = exact(mac=0, action=NAMES.action("count_exact", 0))
    entry.match[0].exact.value = b""
    primary.insert(entry)
    assert read_all(primary) == [exact(mac=0, action=NAMES.action("count_exact", 0))]


def test_a_batch_goes_on_after_errors_and_reports_each_update(primary: Client) -> None:
    results = refusal(primary, (INSERT, exact(1)), (INSERT, exact(1)), (MODIFY, exact(2)), (INSERT, exact(3)))
    assert results == [
        ("OK", ""),
        ("ALREADY_EXISTS", "Match entry exists, use MODIFY if you wish to change action"),
        ("NOT_FOUND", "Cannot find match entry"),
        ("OK", ""),
    ]
    assert len(read_all(primary)) == 2


def test_a_batch_longer_than_one_turn_of_the_data_plane_keeps_its_order(primary: Client) -> None:
    inserts = [(INSERT, exact(n)) for n in range(64)]
    results = refusal(primary, *inserts, (DELETE, exact(63)), (INSERT, exact(64)), (INSERT, exact(65)))
    assert [code for code, _ in results] == ["OK"] * 66 + ["UNKNOWN"]
    assert results[-1][1].startswith("Error when adding match entry to target: ")


def no_action() -> p4r.TableEntry:
    entry = exact()
    entry.ClearField("action")
    return entry


def with_params(*params: tuple[int, bytes]) -> p4r.TableEntry:
    action = NAMES.action("count_exact", 3)
    del action.params[:]
    for param_id, value in params:
        action.params.add(param_id=param_id, value=value)
    return exact(action=action)


def doubled(entry: p4r.TableEntry) -> p4r.TableEntry:
    entry.match.append(entry.match[0])
    return entry


LPM, TERNARY, RANGE = p4r.FieldMatch.LPM, p4r.FieldMatch.Ternary, p4r.FieldMatch.Range
FULL_RANGE = (
    "Invalid representation of 'don't care' range match, omit match field instead of using low=0 and high=2**bitwidth-1"
)


@pytest.mark.parametrize(
    ("kind", "message", "code", "text"),
    [
        (INSERT, p4r.TableEntry(table_id=1), "INVALID_ARGUMENT", "Invalid P4 id"),
        (INSERT, p4r.TableEntry(table_id=NAMES.id("drop")), "INVALID_ARGUMENT", "Invalid P4 id"),
        (INSERT, p4r.TableEntry(), "INVALID_ARGUMENT", "Invalid P4 id"),
        (0, exact(), "INVALID_ARGUMENT", "Update type is not set"),
        (9, exact(), "INVALID_ARGUMENT", "Invalid update type"),
        (INSERT, no_action(), "INVALID_ARGUMENT", "'action' field must be set"),
        (MODIFY, no_action(), "INVALID_ARGUMENT", "'action' field must be set for non-default entries"),
        (INSERT, with_params(), "INVALID_ARGUMENT", "Unexpected number of action parameters"),
        (INSERT, with_params((2, b"\1")), "INVALID_ARGUMENT", "Unknown action parameter"),
        (INSERT, with_params((1, b"\2\0")), "INVALID_ARGUMENT", "Bytestring provided does not fit within 9 bits"),
        (INSERT, exact(1 << 48), "INVALID_ARGUMENT", "Bytestring provided does not fit within 48 bits"),
        (INSERT, exact(action=NAMES.action("learn")), "INVALID_ARGUMENT", "Invalid action for table"),
        (INSERT, exact(action=p4r.Action(action_id=77)), "INVALID_ARGUMENT", "Invalid P4 id"),
        (INSERT, exact(action=NAMES.action("NoAction")), "PERMISSION_DENIED",
         "Cannot use DEFAULT_ONLY action in table entry"),
        (INSERT, exact(priority=1), "INVALID_ARGUMENT", "Non-zero priority for non-ternary match"),
        (INSERT, exact(priority=-1), "INVALID_ARGUMENT", "Negative priority"),
        (INSERT, ternary(priority=0), "INVALID_ARGUMENT", "Zero priority for ternary match"),
        (INSERT, doubled(exact()), "INVALID_ARGUMENT", "Too many fields in match key"),
        (INSERT, doubled(ternary({"smeta.ingress_port": 4})), "INVALID_ARGUMENT", "Unknown field in match key"),
        (INSERT, NAMES.entry("exact_table", {}, NAMES.action("drop")), "INVALID_ARGUMENT",
         "Missing non-ternary field in match key"),
        (INSERT, raw_match("exact_table", lpm=LPM(value=b"\1", prefix_len=48)), "INVALID_ARGUMENT",
         "Invalid match type"),
        (INSERT, raw_match("exact_table"), "INVALID_ARGUMENT", "Invalid match type"),
        (INSERT, raw_match("lpm_table", lpm=LPM(value=b"\0", prefix_len=0)), "INVALID_ARGUMENT",
         "Invalid representation of 'don't care' LPM match, omit match field instead of using a prefix length of 0"),
        (INSERT, raw_match("lpm_table", lpm=LPM(value=b"\1", prefix_len=33)), "INVALID_ARGUMENT",
         "Prefix length cannot be > bitwidth"),
        (INSERT, raw_match("lpm_table", lpm=LPM(value=b"\1", prefix_len=-1)), "INVALID_ARGUMENT",
         "Prefix length cannot be < 0"),
        (INSERT, raw_match("lpm_table", lpm=LPM(value=b"\x0a\0\0\1", prefix_len=8)), "INVALID_ARGUMENT",
         "Invalid LPM value, incorrect number of trailing zeros"),
        (INSERT, ternary({**TERNARY_KEY, "hdr.ethernet.src": (0, 0)}), "INVALID_ARGUMENT",
         "Invalid representation of 'don't care' ternary match, omit match field instead of using 0 mask"),
        (INSERT, ternary({**TERNARY_KEY, "hdr.ethernet.src": (3, 1)}), "INVALID_ARGUMENT",
         "Invalid ternary value, make sure value & mask == value"),
        (INSERT, ternary({**TERNARY_KEY, "hdr.ipv4.protocol": (9, 8)}), "INVALID_ARGUMENT",
         "Invalid range value, make sure low <= high"),
        (INSERT, ternary({**TERNARY_KEY, "hdr.ipv4.protocol": (0, 255)}), "INVALID_ARGUMENT",
         FULL_RANGE),
        (INSERT, exact(idle_timeout_ns=1), "INVALID_ARGUMENT",
         "idle_timeout_ns must be set to 0 for tables which do not support idle timeout"),
        (INSERT, exact(idle_timeout_ns=-1), "INVALID_ARGUMENT", "idle_timeout_ns must be a positive value"),
        (INSERT, exact(time_since_last_hit=p4r.TableEntry.IdleTimeout()), "INVALID_ARGUMENT",
         "has_time_since_last_hit must not be set in WriteRequest"),
        (INSERT, exact(meter_config=p4r.MeterConfig()), "INVALID_ARGUMENT", "Table has no direct meters"),
        (INSERT, ternary(meter_config=p4r.MeterConfig(cir=-2)), "INVALID_ARGUMENT", "Negative meter CIR"),
        (INSERT, ternary(meter_config=p4r.MeterConfig(cburst=1 << 32)), "UNIMPLEMENTED", "CBurst too large"),
        (INSERT, NAMES.default("exact_table", NAMES.action("drop")), "INVALID_ARGUMENT",
         "Cannot use INSERT for default entry"),
        (DELETE, NAMES.default("exact_table"), "INVALID_ARGUMENT", "Cannot use DELETE for default entry"),
        (MODIFY, NAMES.default("lpm_table", NAMES.action("drop")), "PERMISSION_DENIED",
         f"Cannot set / reset default action for table {NAMES.id('lpm_table')} which has a const default action"),
        (MODIFY, NAMES.default("selector_table", NAMES.action("forward", 1)), "INVALID_ARGUMENT",
         f"Cannot set / reset default action for indirect table {NAMES.id('selector_table')}"),
        (INSERT, NAMES.entry("selector_table", {"hdr.ipv4.dst": 1}, NAMES.action("forward", 1)), "INVALID_ARGUMENT",
         f"Cannot provide direct action for indirect table {NAMES.id('selector_table')}"),
        (INSERT, NAMES.entry("const_table", {"hdr.ipv4.protocol": (1, 255)}, NAMES.action("mirror"), 5), "UNKNOWN",
         "Error when adding match entry to target: "),
        (DELETE, NAMES.entry("const_table", {"hdr.ipv4.protocol": (17, 255)}, None, 5), "NOT_FOUND",
         "Cannot find match entry"),
        (DELETE, exact(), "NOT_FOUND", "Cannot find match entry"),
    ],
)  # fmt: skip
def test_a_wrong_update_is_refused(primary: Client, kind: int, message: Any, code: str, text: str) -> None:
    [(found_code, found_text)] = refusal(primary, (kind, message))
    assert found_code == code
    assert found_text.startswith(text)
    assert read_all(primary) == []


def test_a_ternary_prefix_and_range_of_odd_width_are_held_to_the_fields_width(primary: Client) -> None:
    entry = NAMES.entry("wide_table", {"smeta.ingress_port": 0x1FF, "hdr.ethernet.type": (0, 255)},
                        NAMES.action("forward", 1), 3)  # fmt: skip
    primary.insert(entry)
    assert primary.read(entry) == [entry]


def test_an_indirect_action_for_a_direct_table_is_refused(primary: Client) -> None:
    entry = exact()
    entry.action.action_profile_member_id = 1
    [(code, text)] = refusal(primary, (INSERT, entry))
    assert (code, text.split(" for ")[0]) == ("INVALID_ARGUMENT", "Cannot provide indirect action")


def test_the_default_action_is_changed_reset_and_read(primary: Client, running: Running) -> None:
    wanted = NAMES.default("exact_table", NAMES.action("to_cpu", 9))
    wanted.controller_metadata = 3
    primary.modify(wanted)
    held = running.switch.run(lambda: running.switch.table("IngressImpl.exact_table").default_entry())
    assert held is not None
    assert held.action == ActionCall("IngressImpl.to_cpu", (9,))
    assert primary.read(NAMES.default("exact_table")) == [wanted]
    primary.modify(NAMES.default("exact_table"))
    [restored] = primary.read(NAMES.default("exact_table"))
    assert restored == NAMES.default("exact_table", NAMES.action("NoAction"))


def test_default_entries_of_all_tables_are_read_with_table_id_0(primary: Client) -> None:
    found = primary.read(p4r.TableEntry(is_default_action=True))
    assert [e.table_id for e in found] == [table.preamble.id for table in NAMES.p4info.tables]
    assert all(e.is_default_action for e in found)


def test_direct_resources_are_written_with_the_entry_and_read_only_when_asked(
    primary: Client, running: Running
) -> None:
    config = p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    entry = ternary(meter_config=config, counter_data=p4r.CounterData(packet_count=7, byte_count=8))
    primary.insert(entry)
    [held] = running.entries("IngressImpl.ternary_table")
    assert held.meter == MeterConfig(1, 2, 3, 4)
    assert held.counter == CounterValue(7, 0)
    [bare] = primary.read(p4r.TableEntry(table_id=entry.table_id))
    assert not bare.HasField("meter_config")
    assert not bare.HasField("counter_data")
    asked = p4r.TableEntry(table_id=entry.table_id, meter_config=p4r.MeterConfig(), counter_data=p4r.CounterData())
    [full] = primary.read(asked)
    assert full.meter_config == config
    assert full.counter_data.packet_count == 7


def test_a_modify_that_the_data_plane_refuses_changes_nothing(primary: Client, running: Running) -> None:
    entry = ternary(meter_config=p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4))
    primary.insert(entry)
    [before] = running.entries("IngressImpl.ternary_table")
    wrong = NAMES.entry("ternary_table", TERNARY_KEY, NAMES.action("colour", 5), 10)
    wrong.meter_config.CopyFrom(p4r.MeterConfig(cir=2, pir=1))
    [(code, text)] = refusal(primary, (MODIFY, wrong))
    assert (code, text.rpartition(": ")[2]) == ("UNKNOWN", "peak rate 1 is below the committed rate 2")
    [held] = running.entries("IngressImpl.ternary_table")
    assert (held.action, held.meter) == (before.action, before.meter)


@pytest.mark.parametrize("config", [None, p4r.MeterConfig(cir=-1, cburst=-1, pir=-1, pburst=-1)])
def test_a_modify_without_a_meter_configuration_makes_it_green_again(
    primary: Client, running: Running, config: p4r.MeterConfig | None
) -> None:
    primary.insert(ternary(meter_config=p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)))
    primary.modify(ternary(meter_config=config, counter_data=p4r.CounterData(packet_count=7)))
    primary.modify(ternary(meter_config=config))
    [held] = running.entries("IngressImpl.ternary_table")
    assert (held.meter, held.counter) == (None, CounterValue(7, 0))


def test_idle_timeout_is_kept_to_the_millisecond_and_its_age_is_read(primary: Client, running: Running) -> None:
    entry = NAMES.entry("idle_table", {"hdr.ethernet.src": 1}, NAMES.action("learn"), idle_timeout_ns=1_500_900_000)
    primary.insert(entry)
    [held] = running.entries("IngressImpl.idle_table")
    assert held.idle_timeout == 1.5
    asked = p4r.TableEntry(table_id=entry.table_id, time_since_last_hit=p4r.TableEntry.IdleTimeout())
    [found] = primary.read(asked)
    assert 0 <= found.time_since_last_hit.elapsed_ns <= entry.idle_timeout_ns
    assert found.idle_timeout_ns == 1_500_900_000


def test_an_entry_that_was_reported_idle_has_not_been_hit(primary: Client, running: Running) -> None:
    """Its age is since the last hit, and it is reported again only after another timeout."""
    primary.insert(NAMES.entry("idle_table", {"hdr.ethernet.src": 1}, NAMES.action("learn"), idle_timeout_ns=10**9))
    table = running.switch.table("IngressImpl.idle_table")

    def sweeps() -> list[tuple[int, int]]:
        clock, found = table._monotonic, []
        begin = clock()
        for later in (1.1, 1.6, 2.2):
            table._monotonic = lambda now=begin + later: now
            found.append((len(table.idle()), int(table.entries()[0].idle_for)))
        table._monotonic = clock
        return found

    assert running.switch.run(sweeps) == [(1, 1), (0, 1), (1, 2)]


def test_age_of_entries_that_do_not_age_is_refused(primary: Client) -> None:
    asked = p4r.TableEntry(time_since_last_hit=p4r.TableEntry.IdleTimeout())
    with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
        primary.read(asked)


def test_atomic_modes_are_refused_as_a_whole(primary: Client) -> None:
    with pytest.raises(RefusedError) as caught:
        primary.write((INSERT, exact()), atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR)
    assert (caught.value.code, caught.value.errors) == ("UNIMPLEMENTED", [])
    assert read_all(primary) == []


def test_a_read_with_an_error_still_brings_what_was_found_before_it(primary: Client) -> None:
    primary.insert(exact())
    request = p4r.ReadRequest(device_id=1)
    request.entities.add(table_entry=p4r.TableEntry(table_id=NAMES.id("exact_table")))
    request.entities.add(table_entry=p4r.TableEntry(table_id=5))
    call = primary.stub.Read(request)
    assert [len(answer.entities) for answer in [next(call)]] == [1]
    with pytest.raises(Exception, match="Invalid P4 id"):
        next(call)


def test_many_entries_come_in_several_responses(primary: Client) -> None:
    table = NAMES.entry("lpm_table", {"hdr.ipv4.dst": (1, 32)}, NAMES.action("set_nexthop", 1))
    entries = []
    for n in range(1024):
        entry = p4r.TableEntry.FromString(table.SerializeToString())
        entry.match[0].lpm.value = (n + 256).to_bytes(2, "big")
        entries.append(entry)
    primary.insert(*entries)
    wanted = p4r.TableEntry(table_id=table.table_id)
    answers = list(primary.stub.Read(p4r.ReadRequest(device_id=1, entities=[p4r.Entity(table_entry=wanted)])))
    assert [len(answer.entities) for answer in answers] == [1000, 24]
    assert [e.table_entry for answer in answers for e in answer.entities] == entries


def test_large_entries_come_in_responses_that_every_client_takes(primary: Client) -> None:
    entries = [exact(mac, metadata=bytes(90_000)) for mac in range(50)]
    primary.insert(*entries)
    assert primary.read(p4r.TableEntry(table_id=entries[0].table_id)) == entries
