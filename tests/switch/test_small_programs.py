"""Small programs that no P4 source stands for: loops, varbits, const entries, on either target."""

import json
import os
import select
import time

import pytest
from bmv2 import NEEDS_BMV2
from random_actions import HEADERS, Json, field, header, hexstr, operation
from random_programs import Maker
from rig import Rig
from softbench import SoftBench

LAP, COUNT, SPEC = ("scalars", "lap0"), ("first", "c"), ("standard_metadata", "egress_spec")
TARGETS = [
    "soft",
    pytest.param("bmv2", marks=[*NEEDS_BMV2, pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="root")]),
]
START_S, QUIET_S = 0.3, 0.3


def call(op: str, *parameters: Json) -> Json:
    return {"op": op, "parameters": list(parameters)}


def assign(target: tuple[str, str], value: Json) -> Json:
    return call("assign", field(target), {"type": "expression", "value": value} if "value" in value else value)


def plus(ref: tuple[str, str], number: int) -> Json:
    return operation("+", field(ref), hexstr(number))


class Program:
    """A program with a fixed parser; `run` is an action that goes on to another node, `when` a condition."""

    def __init__(self) -> None:
        self.actions: list[Json] = []
        self.tables: list[Json] = []
        self.conditionals: list[Json] = []

    def action(self, *calls: Json) -> int:
        number = len(self.actions)
        self.actions.append({"name": f"action{number}", "id": number, "runtime_data": [], "primitives": list(calls)})
        return number

    def run(self, name: str, following: str | None, *calls: Json, **more: Json) -> None:
        number = self.action(*calls)
        always = not more
        default = {"action_id": number, "action_const": always, "action_entry_const": always, "action_data": []}
        table = {
            "name": name, "id": len(self.tables), "key": [], "match_type": "exact", "type": "simple", "max_size": 64,
            "with_counters": False, "support_timeout": False, "direct_meters": None, "action_ids": [number],
            "actions": [f"action{number}"], "base_default_next": following,
            "next_tables": {f"action{number}": following}, "default_entry": default,
        }  # fmt: skip
        self.tables.append(table | more)

    def when(self, name: str, condition: Json, yes: str | None, no: str | None) -> None:
        made = {"name": name, "id": len(self.conditionals), "expression": condition, "true_next": yes, "false_next": no}
        self.conditionals.append(made)

    def json(self, first: str) -> Json:
        root = Maker(0).program()
        for state in root["parsers"][0]["parse_states"]:
            state["parser_ops"] = [op for op in state["parser_ops"] if op["op"] not in {"verify", "primitive"}]
            if state["name"] == "stack":
                state["transitions"][0]["next_state"] = (
                    "stack"  # a loop: fields are in the packet, or in no known place
                )
        root["deparsers"][0]["order"] = list(HEADERS)
        root["actions"] = self.actions
        ingress = {"name": "ingress", "id": 0, "init_table": first, "tables": self.tables, "action_profiles": []}
        egress = {"name": "egress", "id": 1, "init_table": None, "tables": [], "action_profiles": []}
        root["pipelines"] = [ingress | {"conditionals": self.conditionals}, egress | {"conditionals": []}]
        return root


class Loaded(Rig):
    """A BMv2 that starts with a program."""

    def _argv(self) -> list[str]:
        return [str(self.run_dir / "program.json") if word == "--no-p4" else word for word in super()._argv()]

    def outputs(self, quiet: float) -> list[tuple[int, bytes]]:
        found, numbers = [], {end: number for number, end in self.ports.items()}
        while ready := select.select(list(numbers), (), (), quiet)[0]:
            found += [(numbers[end], self.receive(numbers[end])) for end in ready]
        return found


@pytest.fixture(params=TARGETS)
def forward(request, tmp_path):
    """Sends frames through a program, and tells what leaves for each."""

    def on_soft(root: Json, frames: list[bytes]) -> list[list[tuple[int, bytes]]]:
        bench = SoftBench.of(json.dumps(root))
        return [bench.send(1, frame) for frame in frames]

    def on_bmv2(root: Json, frames: list[bytes]) -> list[list[tuple[int, bytes]]]:
        (tmp_path / "program.json").write_text(json.dumps(root))
        with Loaded("bmv2", tmp_path, ports=3) as rig:
            time.sleep(START_S)  # what the kernel says when an interface comes up
            rig.outputs(QUIET_S)
            found = []
            for frame in frames:
                rig.send(1, frame)
                found.append(rig.outputs(QUIET_S))
            return found

    return on_soft if request.param == "soft" else on_bmv2


def first(kind: int, laps: int, count: int) -> bytes:
    """A frame's first header: 8 bits, 4 and 12, 48, 8; and a tail."""
    return bytes([kind, laps << 4, 0]) + count.to_bytes(6, "big") + bytes(1) + bytes(range(50))


def count_of(outputs: list[tuple[int, bytes]]) -> tuple[int, int]:
    [(port, data)] = outputs
    return port, int.from_bytes(data[3:9], "big")


def test_an_action_that_jumps_back_runs_as_often_as_the_packet_says(forward):
    program = Program()
    still = {"type": "expression", "value": operation("b2d", None, operation("<", field(LAP), field(("first", "a"))))}
    program.run(
        "all", None, assign(LAP, hexstr(0)), call("_jump_if_zero", still, hexstr(5)), assign(COUNT, plus(COUNT, 3)),
        assign(LAP, plus(LAP, 1)), call("_jump", hexstr(1)), assign(SPEC, hexstr(2)),
    )  # fmt: skip
    found = forward(program.json("all"), [first(0, laps, 10) for laps in (0, 1, 5, 15)])
    assert [count_of(outputs) for outputs in found] == [(2, 10 + 3 * laps) for laps in (0, 1, 5, 15)]


def test_tables_that_come_back_to_a_condition_run_as_often_as_the_packet_says(forward):
    program = Program()
    program.run("begin", "still", assign(LAP, hexstr(0)), assign(SPEC, hexstr(3)))
    program.when("still", operation("<", field(LAP), field(("first", "a"))), "body", None)
    program.run("body", "step", assign(COUNT, plus(COUNT, 7)))
    program.run("step", "still", assign(LAP, plus(LAP, 1)))
    found = forward(program.json("begin"), [first(0, laps, 100) for laps in (0, 2, 9)])
    assert [count_of(outputs) for outputs in found] == [(3, 100 + 7 * laps) for laps in (0, 2, 9)]


def two_varbits(one: bytes, other: bytes) -> bytes:
    head = bytes([4]) + bytes(9)
    return head + bytes([len(one)]) + one + bytes([9, len(other)]) + other + bytes([8]) + bytes(range(40))


def test_varbits_compare_as_numbers(forward):
    program = Program()
    program.when("same", operation("==", field(("options", "data")), field(("spare", "data"))), "yes", "no")
    program.run("yes", None, assign(SPEC, hexstr(1)))
    program.run("no", None, assign(SPEC, hexstr(2)))
    pairs = [
        (b"\1", b"\1"),
        (b"\1\0", b"\1"),
        (b"\0\1", b"\1"),
        (b"", b""),
        (b"ab", b"ac"),
        (b"long ones", b"long ones"),
    ]
    found = forward(program.json("same"), [two_varbits(*pair) for pair in pairs])
    assert [outputs[0][0] for outputs in found] == [1, 2, 1, 1, 2, 1]


def test_what_stands_behind_a_varbit_stays_when_the_varbit_changes(forward):
    program = Program()
    copy = call("assign_VL", field(("options", "data")), field(("spare", "data")))
    program.run("all", None, copy, assign(SPEC, hexstr(2)))
    sent = two_varbits(b"before", b"now")
    [[(port, data)]] = forward(program.json("all"), [sent])
    assert (port, data) == (2, sent[:11] + b"now" + sent[17:])


def test_a_header_removed_in_one_lap_is_gone_in_the_next(forward):
    program = Program()
    program.run("begin", "there", assign(LAP, hexstr(0)), assign(SPEC, hexstr(2)))
    program.when("there", operation("d2b", None, field(("options", "$valid$"))), "remove", "end")
    program.run("remove", "there", call("remove_header", header("options")), assign(COUNT, plus(COUNT, 1)))
    program.run("end", None, assign(COUNT, plus(COUNT, 16)))
    sent = two_varbits(b"abc", b"d")
    [outputs] = forward(program.json("begin"), [sent])
    assert count_of(outputs) == (2, 17)
    assert outputs[0][1][10:] == sent[10 + 5 :]


def test_a_const_entry_may_have_bits_behind_its_prefix(forward):
    program = Program()
    elsewhere = program.action(assign(SPEC, hexstr(3)))
    entry = {
        "match_key": [{"match_type": "lpm", "key": "0x17", "prefix_length": 4}],
        "action_entry": {"action_id": elsewhere, "action_data": []},
        "priority": 1,
    }
    key = {"match_type": "lpm", "name": "kind", "target": ["first", "kind"], "mask": None}
    ids = {"action_ids": [elsewhere, 1], "actions": ["action0", "action1"]}
    more = {"key": [key], "match_type": "lpm", "entries": [entry], "next_tables": {"action0": None, "action1": None}}
    program.run("all", None, assign(SPEC, hexstr(1)), **more, **ids)
    found = forward(program.json("all"), [first(kind, 0, 0) for kind in (0x17, 0x1F, 0x27)])
    assert [outputs[0][0] for outputs in found] == [3, 3, 1]
