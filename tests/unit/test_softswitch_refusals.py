"""Programs with features that softswitch lacks are refused at load, by name and source line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.pipeline import compile_program

PROGRAMS = Path(__file__).parents[1] / "switch" / "programs"
DROP_PORT = 511
LINE = r".*\w+\.p4:\d+"

Json = Any
Change = Callable[[Json], None]


def primitives(root: Json) -> Iterator[Json]:
    return (call for action in root["actions"] for call in action["primitives"])


def first_primitive(root: Json, op: str) -> Json:
    return next(call for call in primitives(root) if call["op"] == op)


def expressions(node: Json) -> Iterator[Json]:
    """All operations within a JSON value."""
    if isinstance(node, dict):
        if "op" in node and "right" in node:
            yield node
        for part in node.values():
            yield from expressions(part)
    elif isinstance(node, list):
        for part in node:
            yield from expressions(part)


def parser_ops(root: Json) -> Iterator[Json]:
    return (op for state in root["parsers"][0]["parse_states"] for op in state["parser_ops"])


def tables(root: Json) -> list[Json]:
    return [table for pipeline in root["pipelines"] for table in pipeline["tables"] if table["key"]]


def renamed_operator_in_an_action(root: Json) -> None:
    call = next(call for call in primitives(root) if list(expressions(call["parameters"])))
    next(expressions(call["parameters"]))["op"] = "frobnicate"


def renamed_operator_in_a_condition(root: Json) -> None:
    node = root["pipelines"][0]["conditionals"][0]
    next(expressions(node["expression"]))["op"] = "frobnicate"


def unknown_expression_type(root: Json) -> None:
    first_primitive(root, "assign")["parameters"][1] = {"type": "oracle", "value": 1}


def unknown_field(root: Json) -> None:
    first_primitive(root, "assign")["parameters"][0] = {"type": "field", "value": ["probe", "nowhere"]}


def unknown_header(root: Json) -> None:
    first_primitive(root, "assign")["parameters"][0] = {"type": "field", "value": ["nowhere", "x"]}


def assigned_validity(root: Json) -> None:
    first_primitive(root, "assign")["parameters"][0] = {"type": "field", "value": ["ethernet", "$valid$"]}


def unknown_parser_operation(root: Json) -> None:
    next(op for op in parser_ops(root) if op["op"] == "verify")["op"] = "guess"


def unknown_transition(root: Json) -> None:
    state = next(s for s in root["parsers"][0]["parse_states"] if s["transition_key"])
    state["transitions"][0]["type"] = "oracle"


def extraction_to_something_else(root: Json) -> None:
    next(op for op in parser_ops(root) if op["op"] == "extract")["parameters"][0]["type"] = "oracle"


def varbit_without_length(root: Json) -> None:
    op = next(op for op in parser_ops(root) if op["op"] == "extract_VL")
    op["op"], op["parameters"] = "extract", op["parameters"][:1]


def varbit_with_a_length_of_p4_14(root: Json) -> None:
    varbit_without_length(root)
    kind = next(t for t in root["header_types"] if any("*" in f for f in t["fields"]))
    kind["length_exp"] = {"type": "expression", "value": {"op": "*", "left": {"type": "local", "value": 0},
                                                          "right": {"type": "hexstr", "value": "0x8"}}}  # fmt: skip


def varbit_within_a_byte(root: Json) -> None:
    kind = next(t for t in root["header_types"] if any("*" in f for f in t["fields"]))
    kind["fields"] = [["length", 8, False], ["odd", 4, False], ["data", "*"], ["after", 4, False]]


def a_computed_jump(root: Json) -> None:
    first_primitive(root, "_jump_if_zero")["parameters"][1] = {"type": "local", "value": 0}


def unknown_match_kind(root: Json) -> None:
    tables(root)[0]["key"][0]["match_type"] = "psychic"


def unknown_table_type(root: Json) -> None:
    tables(root)[0]["type"] = "indirect_oracle"


def unknown_algorithm(root: Json) -> None:
    root["calculations"][0]["algo"] = "crc99"


def unknown_checksum(root: Json) -> None:
    root["checksums"][0]["type"] = "oracle"


def three_rates(root: Json) -> None:
    root["meter_arrays"][0]["rate_count"] = 3


def an_extern(root: Json) -> None:
    root["extern_instances"].append({"name": "magic", "id": 0, "type": "Wand",
                                     "source_info": {"filename": "magic.p4", "line": 7}})  # fmt: skip


def unknown_field_list(root: Json) -> None:
    first_primitive(root, "resubmit")["parameters"][0]["value"] = "0x77"


def a_third_pipeline(root: Json) -> None:
    root["pipelines"].append({**root["pipelines"][0], "name": "midgress"})


def no_egress(root: Json) -> None:
    root["pipelines"] = root["pipelines"][:1]


def two_parsers(root: Json) -> None:
    root["parsers"] *= 2


def two_deparsers(root: Json) -> None:
    root["deparsers"] *= 2


def another_version(root: Json) -> None:
    root["__meta__"]["version"] = [3, 0]


def part_of_a_byte(root: Json) -> None:
    next(t for t in root["header_types"] if t["name"] == "ethernet_t")["fields"].append(["odd", 3, False])


REFUSALS: list[tuple[str, Change, str]] = [
    ("arithmetic", renamed_operator_in_an_action, "operator frobnicate" + LINE),
    ("flow", renamed_operator_in_a_condition, "operator frobnicate" + LINE),
    ("externs", unknown_expression_type, "oracle" + LINE),
    ("externs", unknown_field, "field probe.nowhere" + LINE),
    ("externs", unknown_header, "nowhere" + LINE),
    ("externs", assigned_validity, "validity of header ethernet" + LINE),
    ("parsing", unknown_parser_operation, "guess.*parser state parse_label"),
    ("parsing", unknown_transition, "oracle.*parser state start"),
    ("parsing", extraction_to_something_else, "oracle.*parser state start"),
    ("headers", varbit_without_length, "options: varbit without a length.*parser state"),
    ("headers", varbit_with_a_length_of_p4_14, "options: P4_14 length expressions.*parser state"),
    ("headers", varbit_within_a_byte, "options: a varbit that does not start at a byte"),
    ("flow", a_computed_jump, "_jump_if_zero" + LINE + ".*not a constant"),
    ("tables", unknown_match_kind, "psychic"),
    ("tables", unknown_table_type, "indirect_oracle"),
    ("hashes", unknown_algorithm, "crc99" + LINE),
    ("checksums", unknown_checksum, "oracle"),
    ("externs", three_rates, "3 rates"),
    ("externs", an_extern, r"Wand magic \(magic.p4:7\)"),
    ("replication", unknown_field_list, "field list 119" + LINE),
    ("flow", a_third_pipeline, "midgress"),
    ("flow", no_egress, "no ingress and egress"),
    ("flow", two_parsers, "2 parsers"),
    ("flow", two_deparsers, "2 deparsers"),
    ("flow", another_version, r"version 3\.0"),
    ("flow", part_of_a_byte, "not a whole number of bytes"),
]


@pytest.mark.parametrize(("program", "change", "text"), REFUSALS, ids=[change.__name__ for _, change, _ in REFUSALS])
def test_is_refused_by_name_and_line(program: str, change: Change, text: str) -> None:
    root = json.loads((PROGRAMS / f"{program}.json").read_text())
    change(root)
    with pytest.raises(PipelineError, match=text):
        compile_program(json.dumps(root), DROP_PORT)
