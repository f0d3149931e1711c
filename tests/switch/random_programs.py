"""Random v1model programs as BMv2 JSON, with table entries and frames that reach into them, all from one seed.

They are no sensible programs; they are what a compiler's bookkeeping breaks on: headers that come and go on some ways
only, fields read before and after they are written, metadata that crosses to egress or does not, nested branches.
"""

import random
from typing import Any

Json = dict[str, Any]

STANDARD = [
    ["ingress_port", 9, False], ["egress_spec", 9, False], ["egress_port", 9, False], ["instance_type", 32, False],
    ["packet_length", 32, False], ["mcast_grp", 16, False], ["egress_rid", 16, False], ["checksum_error", 1, False],
    ["parser_error", 32, False], ["priority", 3, False], ["_padding", 3, False],
]  # fmt: skip
TYPES = {
    "scalars_t": [["m0", 8, False], ["m1", 16, False], ["m2", 1, False], ["m3", 33, False], ["m4", 8, True],
                  ["m5", 128, False], ["rounds", 8, False]],
    "first_t": [["kind", 8, False], ["a", 4, False], ["b", 12, False], ["c", 48, False], ["d", 8, True]],
    "second_t": [["kind", 8, False], ["x", 3, False], ["y", 20, False], ["z", 1, False], ["w", 128, False]],
    "element_t": [["tag", 8, False], ["value", 8, False]],
    "options_t": [["length", 8, False], ["data", "*"], ["after", 8, False]],
    "short_t": [["value", 8, False]],
    "long_t": [["value", 16, False], ["more", 8, True]],
}  # fmt: skip
HEADERS = {"first": "first_t", "second": "second_t", "third": "second_t", "s[0]": "element_t", "s[1]": "element_t",
           "options": "options_t", "either.small": "short_t", "either.large": "long_t"}  # fmt: skip
LONGEST = {"options_t": 2 + 15}
"""Most bytes of a header with a varbit."""
CLONES = {1: [(1, 0)], 2: [(3, 5), (2, 6)]}
MULTICAST = {1: [(1, 7), (2, 8), (2, 9)]}
KEPT = {1: ["rounds", "m1", "m4"], 2: ["rounds", "m5", "m2", "m3"], 3: ["rounds"]}
"""Field lists: metadata that a copy keeps. `rounds` tells that a packet had its turn, or it would go on for ever."""
ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
          "ParserInvalidArgument"]  # fmt: skip
WIDTHS = {
    (header, name): width
    for header, kind in [*HEADERS.items(), ("scalars", "scalars_t")] for name, width, *_ in TYPES[kind]
    if width != "*" and name != "rounds"
}  # fmt: skip
SIGNED = {
    (header, name)
    for header, kind in [*HEADERS.items(), ("scalars", "scalars_t")] for name, _, *signed in TYPES[kind]
    if signed == [True]
}  # fmt: skip


def hexstr(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def field(ref: tuple[str, str]) -> Json:
    return {"type": "field", "value": list(ref)}


def operation(op: str, left: Json | None, right: Json, **more: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right, **more}}


class Maker:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.actions: list[Json] = []
        self.tables: list[Json] = []
        self.conditionals: list[Json] = []
        self.entries: list[tuple[str, tuple[Any, ...], int, int, tuple[int, ...]]] = []
        self.number = 0
        self.in_egress = False

    def program(self) -> Json:
        standard = [["standard_metadata", True], ["scalars", True], *([name, False] for name in HEADERS)]
        kinds = {**HEADERS, "standard_metadata": "standard_metadata", "scalars": "scalars_t"}
        types = {**TYPES, "standard_metadata": STANDARD}
        ids = {name: number for number, (name, _) in enumerate(standard)}
        order = list(HEADERS) if self.random.random() < 0.7 else self.random.sample(list(HEADERS), len(HEADERS))
        pipelines = [self.pipeline("ingress", 4), self.pipeline("egress", 3)]
        return {
            "__meta__": {"version": [2, 23]},
            "header_types": [
                {"name": n, "id": i, "fields": f} | ({"max_length": LONGEST[n]} if n in LONGEST else {})
                for i, (n, f) in enumerate(types.items())
            ],
            "headers": [
                {"name": name, "id": ids[name], "header_type": kinds[name], "metadata": metadata}
                for name, metadata in standard
            ],
            "header_stacks": [
                {"name": "s", "id": 0, "header_type": "element_t", "header_ids": [ids["s[0]"], ids["s[1]"]]}
            ],
            "header_union_types": [
                {"name": "either_t", "id": 0, "headers": [["small", "short_t"], ["large", "long_t"]]}
            ],
            "header_unions": [
                {
                    "name": "either",
                    "id": 0,
                    "union_type": "either_t",
                    "header_ids": [ids["either.small"], ids["either.large"]],
                }
            ],
            "field_lists": [
                {"name": f"list{number}", "id": number, "elements": [field(("scalars", name)) for name in names]}
                for number, names in KEPT.items()
            ],
            "errors": [[name, number] for number, name in enumerate(ERRORS)],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": self.parser()}],
            "parse_vsets": [],
            "deparsers": [{"name": "deparser", "id": 0, "order": order, "primitives": []}],
            "meter_arrays": [],
            "counter_arrays": [{"name": "counted", "id": 0, "size": 16, "is_direct": False}],
            "register_arrays": [{"name": "cells", "id": 0, "size": 8, "bitwidth": 16}],
            "calculations": [],
            "learn_lists": [],
            "actions": self.actions,
            "pipelines": pipelines,
            "checksums": [],
            "extern_instances": [],
            "field_aliases": [
                ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
                ["intrinsic_metadata.egress_rid", ["standard_metadata", "egress_rid"]],
                ["intrinsic_metadata.priority", ["standard_metadata", "priority"]],
            ],
        }

    # -- expressions --------------------------------------------------------------------------------------------------

    def any_field(self) -> tuple[str, str]:
        return self.random.choice(list(WIDTHS))

    def constant(self, width: int) -> Json:
        edges = [0, 1, (1 << width) - 1, 1 << (width - 1)]
        return hexstr(self.random.choice([*edges, self.random.getrandbits(width)]))

    def arithmetic(self, params: list[int], depth: int = 2) -> Json:  # noqa: PLR0911 - one case per kind
        choice = self.random.random()
        if depth == 0 or choice < 0.25:
            if params and choice < 0.1:
                return {"type": "local", "value": self.random.randrange(len(params))}
            return field(self.any_field()) if choice < 0.2 else self.constant(self.random.choice([1, 8, 16, 48]))
        op = self.random.choice(
            ["+", "-", "*", "&", "|", "^", "<<", ">>", "?", "b2d", "~", "two_comp_mod", "usat_cast"]
        )
        one = self.arithmetic(params, depth - 1)
        if op == "b2d":
            return operation(op, None, self.boolean(params, depth - 1))
        if op == "~":
            return operation("&", operation(op, None, one), hexstr(0xFFFFFF))
        if op in {"<<", ">>"}:
            shift = operation("&", self.arithmetic(params, 0), hexstr(15))
            return operation(op, one, shift if self.random.random() < 0.5 else hexstr(self.random.randrange(20)))
        if op in {"two_comp_mod", "usat_cast"}:
            return operation(op, one, hexstr(self.random.choice([4, 8, 16])))
        other = self.arithmetic(params, depth - 1)
        if op == "?":
            return operation(op, one, other, cond=self.boolean(params, depth - 1))
        return operation(op, one, other)

    def boolean(self, params: list[int], depth: int = 2) -> Json:
        choice = self.random.random()
        if depth == 0 or choice < 0.35:
            return operation("d2b", None, field((self.random.choice(list(HEADERS)), "$valid$")))
        if choice < 0.55:
            return operation(self.random.choice(["and", "or"]), self.boolean(params, depth - 1),
                             self.boolean(params, depth - 1))  # fmt: skip
        if choice < 0.65:
            return operation("not", None, self.boolean(params, depth - 1))
        if choice < 0.8:
            ref = self.any_field()
            return operation("==", field(ref), hexstr(self.random.randrange(min(1 << WIDTHS[ref], 4))))
        op = self.random.choice(["==", "!=", "<", "<=", ">", ">="])
        return operation(op, self.arithmetic(params, depth - 1), self.arithmetic(params, depth - 1))

    # -- actions ------------------------------------------------------------------------------------------------------

    def call(self, op: str, *parameters: Json) -> Json:
        return {"op": op, "parameters": list(parameters)}

    def assignment(self, params: list[int]) -> Json:
        if self.random.random() < 0.15:
            return self.call("assign", field(("standard_metadata", "egress_spec")), hexstr(self.random.randrange(4)))
        target = field(self.any_field())
        source = self.arithmetic(params)
        if source["type"] == "local":
            source = {"type": "runtime_data", "value": source["value"]}
        elif source["type"] == "expression":
            source = {"type": "expression", "value": source}
        return self.call("assign", target, source)

    def primitive(self, params: list[int]) -> Json:  # noqa: PLR0911 - one case per kind
        choice = self.random.random()
        header = {"type": "header", "value": self.random.choice(list(HEADERS))}
        if choice < 0.5:
            return self.assignment(params)
        if choice < 0.6:
            return self.call("add_header", header)
        if choice < 0.7:
            return self.call("remove_header", header)
        if choice < 0.76:
            pair = self.random.sample(["second", "third"], 2)
            return self.call("assign_header", *({"type": "header", "value": name} for name in pair))
        if choice < 0.8:
            pair = self.random.sample(["s[0]", "s[1]"], 2)
            return self.call("assign_header", *({"type": "header", "value": name} for name in pair))
        if choice < 0.84:
            stack = {"type": "header_stack", "value": "s"}
            return self.call(self.random.choice(["push", "pop"]), stack, hexstr(self.random.choice([1, 2])))
        index = {"type": "expression", "value": operation("&", self.arithmetic(params, 1), hexstr(15))}
        if choice < 0.9:
            return self.call("count", {"type": "counter_array", "value": "counted"}, index)
        array = {"type": "register_array", "value": "cells"}
        if choice < 0.94:
            return self.call("register_read", field(self.any_field()), array, index)
        if choice < 0.97:
            value = {"type": "expression", "value": operation("&", self.arithmetic(params, 1), hexstr(0xFFFF))}
            return self.call("register_write", array, index, value)
        return self.call("mark_to_drop", {"type": "header", "value": "standard_metadata"})

    def action(self, widths: list[int]) -> int:
        calls = [self.primitive(widths) for _ in range(self.random.randrange(4))]
        if self.random.random() < 0.3:
            cond = {"type": "expression", "value": operation("b2d", None, self.boolean(widths))}
            inside = [self.primitive(widths) for _ in range(self.random.randrange(1, 3))]
            other = [self.primitive(widths) for _ in range(self.random.randrange(1, 3))]
            start = len(calls)
            calls.append(self.call("_jump_if_zero", cond, hexstr(start + len(inside) + 2)))
            calls += [*inside, self.call("_jump", hexstr(start + len(inside) + 2 + len(other))), *other]
        if self.random.random() < 0.12:
            calls += self.copy(len(calls))
        if calls and self.random.random() < 0.03:
            calls.append(self.call("exit"))
        number = len(self.actions)
        params = [{"name": f"p{i}", "bitwidth": width} for i, width in enumerate(widths)]
        self.actions.append({"name": f"action{number}", "id": number, "runtime_data": params, "primitives": calls})
        return number

    def copy(self, start: int) -> list[Json]:
        """Primitives by which a packet that had no turn yet is copied, or sent round once more."""
        kept = hexstr(self.random.choice(list(KEPT)))
        session = hexstr(self.random.choice([*CLONES, 9]))
        if self.in_egress:
            kinds = [self.call("clone_egress_pkt_to_egress", session, kept), self.call("recirculate", kept)]
        else:
            group = self.call(
                "assign", field(("standard_metadata", "mcast_grp")), hexstr(self.random.choice([1, 1, 2]))
            )
            kinds = [self.call("clone_ingress_pkt_to_egress", session, kept), self.call("resubmit", kept), group]
        rounds = field(("scalars", "rounds"))
        first = {"type": "expression", "value": operation("b2d", None, operation("==", rounds, hexstr(0)))}
        chosen = [self.call("assign", rounds, hexstr(1)), self.random.choice(kinds)]
        return [self.call("_jump_if_zero", first, hexstr(start + 1 + len(chosen))), *chosen]

    # -- control ------------------------------------------------------------------------------------------------------

    def pipeline(self, name: str, size: int) -> Json:
        self.tables, self.conditionals, self.in_egress = [], [], name == "egress"
        first = self.sequence(self.random.randrange(1, size + 1), None, 3)
        return {"name": name, "id": 0, "init_table": first, "tables": self.tables,
                "conditionals": self.conditionals, "action_profiles": []}  # fmt: skip

    def sequence(self, count: int, after: str | None, depth: int) -> str | None:
        for _ in range(count):
            after = self.statement(after, depth)
        return after

    def statement(self, after: str | None, depth: int) -> str:
        self.number += 1
        if depth and self.random.random() < 0.5:
            name = f"node{self.number}"
            yes = self.sequence(self.random.randrange(3), after, depth - 1)
            no = self.sequence(self.random.randrange(2), after, depth - 1)
            self.conditionals.append({"name": name, "id": self.number, "expression": self.boolean([]),
                                      "true_next": yes, "false_next": no})  # fmt: skip
            return name
        return self.table(f"table{self.number}", after, depth)

    def table(self, name: str, after: str | None, depth: int) -> str:
        widths = [[self.random.choice([1, 8, 9, 48]) for _ in range(self.random.randrange(3))] for _ in range(2)]
        actions = [self.action(w) for w in widths]
        kind = self.random.choice(["exact", "exact", "ternary", "lpm", "none"])
        keys = [] if kind == "none" else [self.key(kind)]
        if keys and self.random.random() < 0.4:
            keys.append(self.key("exact"))
        next_tables: Json = {f"action{number}": after for number in actions}
        choice = self.random.random()
        if depth and choice < 0.25:
            next_tables = {"__HIT__": self.sequence(1, after, depth - 1), "__MISS__": after}
        elif depth and choice < 0.4:
            next_tables[f"action{actions[0]}"] = self.sequence(1, after, depth - 1)
        const = kind == "none" and self.random.random() < 0.8
        default = [self.random.getrandbits(w) for w in widths[1]]
        self.tables.append({
            "name": name, "id": self.number, "key": keys, "match_type": "exact" if kind == "none" else kind,
            "type": "simple", "max_size": 64, "with_counters": False, "support_timeout": False, "direct_meters": None,
            "action_ids": actions, "actions": [f"action{n}" for n in actions], "base_default_next": after,
            "next_tables": next_tables,
            "default_entry": {"action_id": actions[1], "action_const": const, "action_entry_const": const,
                              "action_data": [hex(v) for v in default]},
        })  # fmt: skip
        if keys:
            self.fill(name, keys, actions, widths)
        return name

    def key(self, kind: str) -> Json:
        choice = [ref for ref in WIDTHS if ref not in SIGNED]
        return {"match_type": kind, "name": f"k{self.number}", "target": list(self.random.choice(choice)), "mask": None}

    def fill(self, name: str, keys: list[Json], actions: list[int], widths: list[list[int]]) -> None:
        known = set()
        for priority in range(1, self.random.randrange(2, 5)):
            match = tuple(self.match(key) for key in keys)
            if match in known:
                continue
            known.add(match)
            which = self.random.randrange(2)
            args = tuple(self.random.getrandbits(w) for w in widths[which])
            rank = priority if any(key["match_type"] == "ternary" for key in keys) else 0
            self.entries.append((name, match, rank, actions[which], args))

    def match(self, key: Json) -> Any:
        width = WIDTHS[tuple(key["target"])]
        value = self.random.choice([0, 1, 2, self.random.getrandbits(width)]) & ((1 << width) - 1)
        if key["match_type"] == "exact":
            return value
        if key["match_type"] == "lpm":
            length = self.random.randrange(width + 1)
            return value >> (width - length) << (width - length), length
        mask = self.random.choice([0, 1, (1 << width) - 1, self.random.getrandbits(width)])
        return value & mask, mask

    # -- parser -------------------------------------------------------------------------------------------------------

    def parser(self) -> list[Json]:
        states: list[Json] = []

        def extract(kind: str, value: str) -> Json:
            return {"op": "extract", "parameters": [{"type": kind, "value": value}]}

        def state(name: str, ops: list[Json], key: list[Json], cases: list[tuple[int, int | None, str | None]]) -> None:
            transitions = [
                {"type": "hexstr", "value": f"{value:#04x}", "mask": None if mask is None else f"{mask:#04x}",
                 "next_state": target} for value, mask, target in cases
            ]  # fmt: skip
            transitions.append({"type": "default", "value": None, "mask": None, "next_state": None})
            states.append({"name": name, "id": len(states), "parser_ops": ops, "transitions": transitions,
                           "transition_key": key})  # fmt: skip

        loops = self.random.random() < 0.4
        sets = {"op": "set", "parameters": [field(("scalars", "m0")), field(("first", "kind"))]}
        verify = {"op": "verify", "parameters": [self.boolean([], 1), hexstr(2)]}
        state("start", [extract("regular", "first"), *([sets] if self.random.random() < 0.5 else [])],
              [field(("first", "kind"))], [(1, None, "second"), (2, 0x0F, "stack"), (4, None, "options"),
               (5, None, "either"), (0x80, 0x80, "third")])  # fmt: skip
        state("second", [extract("regular", "second"), *([verify] if self.random.random() < 0.3 else [])],
              [field(("second", "kind"))], [(1, None, "third"), (2, 2, "stack")])  # fmt: skip
        state("third", [extract("regular", "third")], [field(("third", "kind"))], [(3, None, "stack")])
        last = {"type": "stack_field", "value": ["s", "tag"]}
        state("stack", [extract("stack", "s")], [last], [(1, None, "stack" if loops else "more"), (7, None, "ahead")])
        state("more", [extract("stack", "s")], [], [])
        ahead = {"op": "set", "parameters": [field(("scalars", "m1")), {"type": "lookahead", "value": [4, 12]}]}
        state("ahead", [ahead], [], [])
        length = operation("<<", operation("&", {"type": "lookahead", "value": [0, 8]}, hexstr(0x1F)), hexstr(3))
        measured = {"op": "set", "parameters": [field(("scalars", "m1")), {"type": "expression", "value": length}]}
        size = {"type": "expression", "value": field(("scalars", "m1"))}
        options = {"op": "extract_VL", "parameters": [{"type": "regular", "value": "options"}, size]}
        state("options", [measured, options], [field(("options", "after"))], [(1, None, "either"), (2, 2, "stack")])
        state("either", [], [{"type": "lookahead", "value": [0, 8]}], [(1, None, "small"), (7, 7, "large")])
        state("small", [extract("regular", "either.small")], [], [])
        state("large", [extract("regular", "either.large")], [], [])
        return states

    # -- frames -------------------------------------------------------------------------------------------------------

    def frame(self) -> bytes:
        pick = self.random.choice
        if self.random.random() < 0.25:
            count = pick([0, 1, 3, 15, 16])
            tail = bytes([pick([0, 1, 2, 7])]) + self.random.randbytes(8)
            data = bytes([pick([4, 4, 5])]) + self.random.randbytes(9)
            data += bytes([count]) + self.random.randbytes(count) + bytes([pick([1, 2, 9])]) if data[0] == 4 else b""
            return data + tail
        data = bytes([pick([0, 1, 1, 2, 2, 0x80, 0x92, 0xFF])]) + self.random.randbytes(9)
        data += bytes([pick([0, 1, 2, 3, 7])]) + self.random.randbytes(19)
        data += bytes([pick([1, 3, 7])]) + self.random.randbytes(19)
        data += bytes([pick([1, 7, 0]), 5, pick([1, 7, 0]), 6, 1, 7]) + self.random.randbytes(6)
        return data if self.random.random() < 0.8 else data[: self.random.randrange(len(data))]
