"""Random and damaged requests: refused with a canonical code, and the server goes on."""

import gc
import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i, p4r
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4runtime_client import ANSWER_TIMEOUT_S, DELETE, INSERT, Client, RefusedError, StreamClient, unpacked
from p4runtime_fixtures import NAMES, P4INFO, PROGRAM_JSON, Running

pytestmark = pytest.mark.once

MAX_DEPTH = 6
ROUNDS = 6
RAW = {"request_serializer": lambda data: data, "response_deserializer": lambda data: data}
FUZZ = settings(
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

_GROUPS = (P4INFO.tables, P4INFO.actions, P4INFO.action_profiles, P4INFO.counters, P4INFO.direct_counters,
           P4INFO.meters, P4INFO.direct_meters, P4INFO.digests, P4INFO.registers)  # fmt: skip
IDS = [item.preamble.id for group in _GROUPS for item in group]
small = st.integers(0, 5)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Client]]:
    running = Running(tmp_path_factory.mktemp("fuzz") / "p4rt.sock")
    with running.client() as client:
        client.become_primary().set_pipeline(PROGRAM_JSON)
        yield running, client
    running.stop()


def scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Mostly values that mean something, sometimes the limits of the type."""
    if field.name.endswith("_id") and field.name not in {"member_id", "group_id", "field_id", "param_id"}:
        return st.sampled_from(IDS) | small
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.binary(max_size=8) if field.type == FieldDescriptor.TYPE_BYTES else st.text(max_size=4)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    limits = {
        FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
        FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
        FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
        FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
    }
    if field.cpp_type not in limits:
        return st.floats(width=32)
    return small | st.integers(*limits[field.cpp_type])


def _is_special(descriptor: Descriptor) -> bool:
    """Return True if messages of this type cannot be made from plain arguments: maps and Any."""
    return descriptor.GetOptions().map_entry or descriptor.full_name.startswith("google.")


@st.composite
def fields(draw: st.DrawFn, descriptor: Descriptor, depth: int = 0) -> dict[str, Any]:
    """Arguments for a message of this type: any subset of its fields, at most one of every oneof."""
    chosen: dict[str, Any] = {}
    oneofs_done: set[str] = set()
    for field in draw(st.permutations(list(descriptor.fields))):
        oneof = field.containing_oneof
        if (oneof is not None and oneof.name in oneofs_done) or draw(st.integers(0, 2)) == 0:
            continue
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            if depth == MAX_DEPTH or _is_special(field.message_type):
                continue
            one = fields(field.message_type, depth + 1)
        else:
            one = scalar(field)
        chosen[field.name] = draw(st.lists(one, max_size=3) if field.is_repeated else one)
        if oneof is not None:
            oneofs_done.add(oneof.name)
    return chosen


def message(kind: Any, depth: int = MAX_DEPTH) -> st.SearchStrategy[Any]:
    """Messages of this type, nested as deeply as told."""
    return fields(kind.DESCRIPTOR, MAX_DEPTH - depth).map(lambda chosen: kind(**chosen))


@st.composite
def near_valid_entries(draw: st.DrawFn) -> p4r.TableEntry:
    """Entries whose tables, fields and actions exist, with values that may or may not fit."""
    table = draw(st.sampled_from(list(P4INFO.tables)))
    entry = p4r.TableEntry(table_id=table.preamble.id, priority=draw(st.sampled_from([0, 1, 2])))
    value = st.binary(min_size=1, max_size=2)
    for field in draw(st.lists(st.sampled_from(list(table.match_fields)), unique_by=lambda f: f.id)):
        match = entry.match.add(field_id=field.id)
        if field.match_type == p4i.MatchField.EXACT:
            match.exact.value = draw(value)
        elif field.match_type == p4i.MatchField.LPM:
            match.lpm.value, match.lpm.prefix_len = draw(value), draw(st.integers(0, 33))
        elif field.match_type == p4i.MatchField.TERNARY:
            match.ternary.value, match.ternary.mask = draw(value), draw(value)
        elif field.match_type == p4i.MatchField.RANGE:
            match.range.low, match.range.high = draw(value), draw(value)
        else:
            match.optional.value = draw(value)
    ref = draw(st.sampled_from(list(table.action_refs)))
    action = next(a for a in P4INFO.actions if a.preamble.id == ref.id)
    call = p4r.Action(action_id=ref.id)
    for param in action.params:
        call.params.add(param_id=param.id, value=draw(value))
    if not table.implementation_id:
        entry.action.action.CopyFrom(call)
    elif draw(st.booleans()):
        one_shot = entry.action.action_profile_action_set.action_profile_actions
        one_shot.add(action=call, weight=draw(st.integers(0, 3)))
    else:
        entry.action.action_profile_member_id = draw(small)
    return entry


entities = message(p4r.Entity) | near_valid_entries().map(lambda entry: p4r.Entity(table_entry=entry))
updates = st.lists(st.tuples(st.sampled_from([0, 1, 1, 1, 2, 3]), entities), max_size=6)


def attempt(call: Callable[[], Any]) -> RefusedError | None:
    """Make a call that may be refused; returns the refusal."""
    try:
        with unpacked():
            call()
    except RefusedError as error:
        return error
    return None


def check_alive(client: Client) -> None:
    client.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=ANSWER_TIMEOUT_S)


@FUZZ
@given(batch=updates)
def test_random_writes_are_applied_or_refused_and_what_is_read_can_be_deleted(
    server: tuple[Running, Client], batch: list[tuple[int, p4r.Entity]]
) -> None:
    running, client = server
    refused = attempt(lambda: client.write(*batch))
    if refused is not None:
        assert refused.code == "UNKNOWN"
        assert "INTERNAL" not in refused.codes, refused.errors
        assert len(refused.codes) == len(batch)
    const = NAMES.id("const_table")
    found = [e for e in client.read(p4r.TableEntry()) if e.table_id != const]
    held = sum(len(running.entries(t.preamble.name)) for t in P4INFO.tables if t.preamble.id != const)
    assert held == len(found)
    if found:
        with pytest.raises(RefusedError) as again:
            client.insert(*found)
        assert set(again.value.codes) == {"ALREADY_EXISTS"}
        client.delete(*found)
    client.read(p4r.ActionProfileMember(), p4r.ActionProfileGroup(), p4r.MulticastGroupEntry(), p4r.CloneSessionEntry())
    assert client.read(p4r.MeterEntry(), p4r.CounterEntry())


@FUZZ
@given(wanted=st.lists(entities, max_size=4))
def test_random_reads_are_answered_or_refused(server: tuple[Running, Client], wanted: list[p4r.Entity]) -> None:
    refused = attempt(lambda: server[1].read(*wanted))
    if refused is not None:
        assert refused.code in {"INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "OUT_OF_RANGE", "UNKNOWN"}


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """`data` with a few bytes changed, left out or put in."""
    position = st.integers(0, max(len(data) - 1, 0))
    edits = st.lists(st.tuples(position, st.integers(0, 3), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4)

    def apply(changes: list[tuple[int, int, bytes]]) -> bytes:
        result = data
        for place, cut, put in changes:
            result = result[:place] + put + result[place + cut :]
        return result

    return edits.map(apply)


def write_request() -> bytes:
    request = p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=1))
    entry = NAMES.entry("exact_table", {"hdr.ethernet.dst": 1}, NAMES.action("count_exact", 1))
    request.updates.add(type=INSERT, entity=p4r.Entity(table_entry=entry))
    request.updates.add(type=DELETE, entity=p4r.Entity(table_entry=entry))
    return request.SerializeToString()


def pipeline_request() -> bytes:
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=1, election_id=p4r.Uint128(low=1), action=p4r.SetForwardingPipelineConfigRequest.VERIFY
    )
    request.config.p4info.CopyFrom(P4INFO)
    request.config.p4_device_config = PROGRAM_JSON
    return request.SerializeToString()


REQUESTS = {
    "Write": write_request(),
    "SetForwardingPipelineConfig": pipeline_request(),
    "GetForwardingPipelineConfig": p4r.GetForwardingPipelineConfigRequest(
        device_id=1, response_type=1
    ).SerializeToString(),
    "Capabilities": b"\x08\x01",
}


@FUZZ
@given(data=st.data(), name=st.sampled_from(sorted(REQUESTS)))
def test_damaged_requests_end_with_a_status(server: tuple[Running, Client], data: st.DataObject, name: str) -> None:
    client = server[1]
    call = client.channel.unary_unary(f"/p4.v1.P4Runtime/{name}", **RAW)
    request = data.draw(damaged(REQUESTS[name]))
    refused = attempt(lambda: call(request, timeout=ANSWER_TIMEOUT_S))
    assert refused is None or refused.code != "INTERNAL"
    check_alive(client)


@FUZZ
@given(requests=st.lists(message(p4r.StreamMessageRequest) | st.binary(max_size=30), max_size=6))
def test_random_stream_messages_never_hang_the_stream(
    server: tuple[Running, Client], requests: list[p4r.StreamMessageRequest | bytes]
) -> None:
    client = server[1]
    raw = [r if isinstance(r, bytes) else r.SerializeToString() for r in requests]
    call: Callable[..., Iterator[bytes]] = client.channel.stream_stream("/p4.v1.P4Runtime/StreamChannel", **RAW)
    refused = attempt(lambda: list(call(iter(raw), timeout=ANSWER_TIMEOUT_S)))
    assert refused is None or refused.code not in {"DEADLINE_EXCEEDED", "INTERNAL"}
    check_alive(client)


@FUZZ
@given(p4info=message(p4i.P4Info, depth=2))
def test_random_p4infos_are_verified_or_refused(server: tuple[Running, Client], p4info: p4i.P4Info) -> None:
    verify = p4r.SetForwardingPipelineConfigRequest.VERIFY
    refused = attempt(lambda: server[1].set_pipeline(PROGRAM_JSON, verify, p4info=p4info))
    assert refused is None or refused.code == "UNKNOWN"


JUNK: st.SearchStrategy[Any] = st.sampled_from([None, True, -1, 0, 1.5, "", "x", [], {}]) | st.integers(-2, 70_000)


@st.composite
def damaged_programs(draw: st.DrawFn) -> bytes:
    """The test program's JSON with one value somewhere replaced or left out."""
    program = json.loads(PROGRAM_JSON)
    at: Any = program
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        below = at[key]
        if not isinstance(below, dict | list) or not below or draw(st.integers(0, 9)) == 0:
            break
        at = below
    if draw(st.booleans()):
        del at[key]
    else:
        at[key] = draw(JUNK)
    return json.dumps(program).encode()


@settings(FUZZ, max_examples=25)
@given(program=damaged_programs() | st.binary(max_size=50) | st.just(b"[" * 100_000))
def test_damaged_programs_are_loaded_or_refused_and_the_next_one_is_loaded(
    server: tuple[Running, Client], program: bytes
) -> None:
    client = server[1]
    refused = attempt(lambda: client.set_pipeline(program))
    assert refused is None or refused.code == "UNKNOWN", refused
    client.set_pipeline(PROGRAM_JSON)
    client.insert(NAMES.entry("exact_table", {"hdr.ethernet.dst": 1}, NAMES.action("drop")))


def test_streams_and_refused_writes_leave_nothing_behind(tmp_path: Path) -> None:
    running = Running(tmp_path / "p4rt.sock")
    try:
        with running.client() as client:
            client.become_primary().set_pipeline(PROGRAM_JSON)

            def trouble() -> None:
                for election_id in range(20):
                    stream = StreamClient(client.stub)
                    stream.arbitrate(election_id)
                    stream.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(1000))))
                    stream.hang_up()
                entry = NAMES.entry("exact_table", {"hdr.ethernet.dst": 1}, NAMES.action("drop"))
                bad = p4r.DigestEntry(digest_id=1)
                for _ in range(20):
                    with pytest.raises(RefusedError):
                        client.write((INSERT, entry), (INSERT, bad), (DELETE, entry))
                running.switch.packets.clear()
                assert client.stream is not None
                client.stream.drain()

            tracemalloc.start()
            for _ in range(4):
                trouble()
            threads = threading.active_count()
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(ROUNDS):
                trouble()
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert grown / ROUNDS < 10_000  # bytes for 20 streams and 20 writes, on both sides
            assert threading.active_count() <= threads + 2
            assert len(running.server.device.arbiter._controllers) == 1
    finally:
        running.stop()
