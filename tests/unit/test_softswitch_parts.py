"""Parts of softswitch by themselves: hashes, meters, lookups, queues, the code cache, and what is refused at load."""

import json
from pathlib import Path

import pytest

from mrclab.bench.switch.measure import program_seconds
from mrclab.softswitch import pipeline
from mrclab.softswitch.clock import SwitchClock
from mrclab.softswitch.compiler import handover
from mrclab.softswitch.inprocess import InProcess
from mrclab.softswitch.objects import hashing
from mrclab.softswitch.objects.digests import Digests
from mrclab.softswitch.objects.match import matcher
from mrclab.softswitch.objects.meters import GREEN, RED, YELLOW, RuntimeMeter
from mrclab.softswitch.objects.runtime_api import DigestConfig, InvalidRequestError, MeterConfig, PipelineError
from mrclab.softswitch.p4 import cache
from mrclab.softswitch.p4.bmv2json import MAX_CELLS
from mrclab.softswitch.p4.program import FieldRef, TableKey
from mrclab.softswitch.pipeline import compile_program
from mrclab.softswitch.traffic_manager import TrafficManager

PROGRAM = Path(__file__).parents[1] / "switch" / "programs" / "externs.json"

# Check values over "123456789" from the catalogue of parametrised CRC algorithms, and XXH64's own for the empty input.
CHECKS = {"crc16": 0xBB3D, "crc32": 0xCBF43926, "crcCCITT": 0x29B1, "crc8_custom": 0xF4, "identity": 0x3132333435363738}


@pytest.mark.parametrize("algorithm", CHECKS)
def test_hash_gives_the_published_check_value(algorithm):
    assert hashing.make(algorithm)(b"123456789") == CHECKS[algorithm]


def test_xxh64_of_nothing_is_the_published_value():
    assert hashing.xxh64(b"") == 0xEF46DB3751D8E999


def test_internet_checksum_of_rfc_1071s_example():
    assert hashing.csum16(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF ^ 0xDDF2


def test_meter_spends_the_peak_bucket_first_and_refills_with_time():
    now = 0
    meter = RuntimeMeter(packets=True, clock=lambda: now)
    meter.configure(MeterConfig(cir=1, cburst=1, pir=2, pburst=3))
    assert [meter.execute(100) for _ in range(4)] == [GREEN, YELLOW, YELLOW, RED]
    now = 1_000_000
    assert [meter.execute(100) for _ in range(3)] == [GREEN, YELLOW, RED]


def test_meter_refuses_a_peak_below_the_committed_rate():
    with pytest.raises(InvalidRequestError, match="below the committed"):
        RuntimeMeter(packets=True, clock=lambda: 0).configure(MeterConfig(2, 1, 1, 1))


def digest(config):
    """A digest with its lists, and a clock to be set."""
    now, lists = [0.0], []
    made = Digests({1: "learn"}, lambda: now[0])
    made.callback = lambda found: lists.append(found.messages)
    made.enable("learn", config)
    return made, now, lists


def test_digest_lists_of_size_0_have_no_limit_but_their_time():
    digests, now, lists = digest(DigestConfig(max_timeout=1.0, max_list_size=0, ack_timeout=5.0))
    for message in (1, 2, 3):
        digests.learn(1, (message,))
    assert lists == []
    now[0] = 1.0
    digests.run()
    assert lists == [((1,), (2,), (3,))]


def test_messages_of_a_digest_list_are_distinct_also_where_nothing_is_acknowledged():
    digests, _, lists = digest(DigestConfig(max_timeout=1.0, max_list_size=2, ack_timeout=0.0))
    for message in (1, 1, 2, 1, 2):
        digests.learn(1, (message,))
    assert lists == [((1,), (2,)), ((1,), (2,))]


def test_nothing_is_held_back_once_a_digest_waits_for_no_acknowledgement():
    digests, _, lists = digest(DigestConfig(max_timeout=1.0, max_list_size=2, ack_timeout=5.0))
    for message in (1, 2, 3):
        digests.learn(1, (message,))
    digests.enable("learn", DigestConfig(max_timeout=0.0, max_list_size=2, ack_timeout=0.0))
    for message in (4, 3, 1):
        digests.learn(1, (message,))
    assert lists == [((1,), (2,)), ((3,), (4,)), ((3,),), ((1,),)]


def test_longest_prefix_wins_and_a_removed_one_is_forgotten():
    table = matcher((TableKey("dst", 32, "lpm", FieldRef("h", "dst")),))
    for length in (0, 8, 16):
        table.put(((0x0A0B0000 >> 32 - length << 32 - length if length else 0, length),), 0, (length,))
    assert [table.find(key) for key in (0x0A0B0C0D, 0x0A000001, 1)] == [(16,), (8,), (0,)]
    table.remove(((0x0A0B0000, 16),), 0)
    assert table.find(0x0A0B0C0D) == (8,)


def test_larger_priority_wins_among_masks_and_ranges():
    table = matcher((TableKey("a", 8, "ternary", FieldRef("h", "a")), TableKey("b", 8, "range", FieldRef("h", "b"))))
    table.put(((0x10, 0xF0), (0, 255)), 1, ("wide",))
    table.put(((0x12, 0xFF), (10, 20)), 2, ("narrow",))
    assert table.find((0x12, 15)) == ("narrow",)
    assert table.find((0x12, 21)) == ("wide",)
    assert table.find((0x22, 15)) is None


def test_queue_holds_packets_back_by_rate_and_drops_what_it_cannot_hold():
    sent = []
    traffic = TrafficManager(priorities=2, clock_us=lambda: 0)
    traffic.set_rate(1, priority=0)
    traffic.set_depth(3, priority=0)

    def egress(state, port, priority, *depths):
        sent.append((state[1], priority))

    for name in "abcdef":
        traffic.enqueue(1, 0, (egress, name))
    traffic.enqueue(1, 1, (egress, "urgent"))
    assert sent == [("a", 0), ("urgent", 1)]
    assert traffic.dropped() == {(1, 0): 2}
    assert traffic.deadline is not None


@pytest.mark.parametrize("interval", [0.0094, 0.0098, 0.01])
def test_packets_may_leave_a_little_early_and_the_rate_still_holds(interval):
    """100 packets per second: offered somewhat faster they pass one by one, and after a while the queue fills."""
    now = [1000.0]
    clock = SwitchClock(lambda: now[0], lambda: int(now[0] * 1e9), timer_seconds=100e-6)
    traffic, left = TrafficManager(1, lambda: 0, clock), []
    traffic.set_rate(100)
    traffic.set_depth(1000)
    for number in range(300):
        now[0] = 1000.0 + number * interval
        while traffic.deadline is not None and traffic.deadline <= now[0]:
            traffic.run()
        traffic.enqueue(1, 0, (lambda *_: left.append(now[0]),))
    early = [moment - 1000.0 - number * 0.01 for number, moment in enumerate(left)]
    assert min(early) >= -clock.timer_seconds - 1e-9
    assert len(left) == 300 if interval == 0.01 else 300 > len(left) >= 300 * interval / 0.01 - 2


def damaged(change):
    root = json.loads(PROGRAM.read_text())
    change(root)
    return json.dumps(root)


def test_unknown_primitive_is_refused_with_its_name_and_line():
    def change(root):
        call = next(c for a in root["actions"] for c in a["primitives"] if c["op"] == "count")
        call["op"] = "teleport"

    with pytest.raises(PipelineError, match=r"primitive teleport: not supported.*externs\.p4:\d+"):
        compile_program(damaged(change), 511)


def test_arrays_that_would_fill_the_memory_are_refused_by_name():
    def change(root):
        root["register_arrays"][0]["size"] = MAX_CELLS + 1

    with pytest.raises(PipelineError, match="cells"):
        compile_program(damaged(change), 511)


def test_a_field_of_the_last_union_of_a_stack_can_be_assigned():
    def change(root):
        kind = next(each for each in root["header_types"] if each["name"] == "ethernet_t")
        headers = [{"name": f"u{n}", "id": 900 + n, "header_type": kind["name"], "metadata": False} for n in (0, 1)]
        root["headers"] += headers
        root["header_union_types"] = [{"name": "both", "id": 0, "headers": [["eth", kind["name"]]]}]
        unions = [{"name": f"both{n}", "id": n, "union_type": "both", "header_ids": [900 + n]} for n in (0, 1)]
        stack = {"name": "stack", "id": 0, "union_type": "both", "header_union_ids": [0, 1]}
        root["header_unions"], root["header_union_stacks"] = unions, [stack]
        target = {"type": "union_stack_field", "value": ["stack", "eth", kind["fields"][0][0]]}
        call = {"op": "assign", "parameters": [target, {"type": "hexstr", "value": "0x1"}]}
        next(each for each in root["actions"] if each["name"] == "externs64")["primitives"].append(call)
        extract = {"op": "extract", "parameters": [{"type": "union_stack", "value": ["stack", "eth"]}]}
        root["parsers"][0]["parse_states"][0]["parser_ops"].append(extract)
        root["deparsers"][0]["order"] += ["u0", "u1"]

    (copy,) = InProcess(damaged(change)).arrive(0, 1, bytes(40)).copies
    assert copy.data == bytes(26 + 5) + b"\1" + bytes(8)  # behind ethernet and probe, the last byte of dst


def test_cache_that_others_may_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.store("name", compile("1", "<test>", "eval"), enqueue_time=True)
    assert cache.load("name") is not None
    (tmp_path / "softswitch").chmod(0o777)
    assert cache.load("name") is None


def test_queue_states_beyond_the_limit_of_layouts_share_one(monkeypatch):
    monkeypatch.setattr(handover, "MAX_LAYOUTS", 0)
    monkeypatch.setattr(pipeline, "_latest", {})
    monkeypatch.setattr(cache, "load", lambda _name: None)
    monkeypatch.setattr(cache, "store", lambda *_: None)
    assert program_seconds(128, 2) > 0  # it checks that both frames are forwarded
