"""Random v1model programs as BMv2 JSON, with table entries and frames that reach into them, all from one seed.

They are no sensible programs; they are what a compiler's bookkeeping breaks on: headers that come and go on some ways
only, fields read before and after they are written, metadata that crosses to egress or does not, nested branches, and
loops in actions, between tables and in the parser.
"""

import random
from typing import Any

from random_actions import (
    ERRORS,
    HEADERS,
    KEPT,
    LONGEST,
    SIGNED,
    STANDARD,
    TYPES,
    WIDTHS,
    Actions,
    Json,
    field,
    hexstr,
    operation,
)


def padded(value: int, width: int) -> str:
    return f"{value:#0{2 + (width + 7) // 8 * 2}x}"


class Maker:
    """Makes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.parts = Actions(self.random)
        self.tables: list[Json] = []
        self.conditionals: list[Json] = []
        self.entries: list[tuple[str, tuple[Any, ...], int, int, tuple[int, ...]]] = []
        self.const_entries: list[tuple[str, tuple[Any, ...], int, int, tuple[int, ...]]] = []
        self.number = self.nodes = 0
        self.leave: list[str | None] = []  # where a loop between tables is left to
        self.circles = self.random.random() < 0.35

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
            "actions": self.parts.made,
            "pipelines": pipelines,
            "checksums": [],
            "extern_instances": [],
            "field_aliases": [
                ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
                ["intrinsic_metadata.egress_rid", ["standard_metadata", "egress_rid"]],
                ["intrinsic_metadata.priority", ["standard_metadata", "priority"]],
            ],
        }

    # -- control ------------------------------------------------------------------------------------------------------

    def pipeline(self, name: str, size: int) -> Json:
        self.tables, self.conditionals, self.parts.in_egress = [], [], name == "egress"
        first = self.sequence(self.random.randrange(1, size + 1), None, 3)
        return {"name": name, "id": int(self.parts.in_egress), "init_table": first, "tables": self.tables,
                "conditionals": self.conditionals, "action_profiles": []}  # fmt: skip

    def sequence(self, count: int, after: str | None, depth: int) -> str | None:
        for _ in range(count):
            after = self.statement(after, depth)
        return after

    def statement(self, after: str | None, depth: int) -> str:
        self.number += 1
        if depth and self.circles and not self.leave and self.random.random() < 0.3:
            return self.cycle(after, depth)
        if depth and self.random.random() < 0.5:
            name = f"node{self.number}"
            yes = self.sequence(self.random.randrange(3), after, depth - 1)
            no = self.sequence(self.random.randrange(2), after, depth - 1)
            self.condition(name, self.parts.boolean([]), yes, self.early(no))
            return name
        return self.table(f"table{self.number}", after, depth)

    def condition(self, name: str, expression: Json, yes: str | None, no: str | None) -> None:
        self.nodes += 1
        found = {"name": name, "id": self.nodes, "expression": expression, "true_next": yes, "false_next": no}
        self.conditionals.append(found)

    def early(self, after: str | None) -> str | None:
        """Next node: sometimes out of the loop."""
        return self.leave[0] if self.leave and self.random.random() < 0.15 else after

    def cycle(self, after: str | None, depth: int) -> str:
        """A loop between tables, as p4c writes `for`: tables without key count its laps."""
        begin, name, step = (f"{what}{self.number}" for what in ("begin", "while", "step"))
        lap = field(("scalars", "lap2"))
        self.leave.append(after)
        body = self.sequence(self.random.randrange(1, 3), step, depth - 1)
        self.leave.pop()
        more = {"type": "expression", "value": operation("+", lap, hexstr(1))}
        for table, value in ((begin, hexstr(0)), (step, more)):
            self.number += 1
            action = self.parts.made_of([self.parts.call("assign", lap, value)], [])
            always = {"action_id": action, "action_const": True, "action_entry_const": True, "action_data": []}
            self.add_table(table, [], [action], {f"action{action}": name}, name, always)
        self.number += 1
        self.condition(name, operation("<", lap, self.parts.limit()), body, after)
        return begin

    def table(self, name: str, after: str | None, depth: int) -> str:
        widths = [[self.random.choice([1, 8, 9, 48]) for _ in range(self.random.randrange(3))] for _ in range(2)]
        actions = [self.parts.action(w) for w in widths]
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
        elif choice < 0.5:
            next_tables[f"action{actions[0]}"] = self.early(after)
        const = kind == "none" and self.random.random() < 0.8
        data = [hex(self.random.getrandbits(w)) for w in widths[1]]
        default = {"action_id": actions[1], "action_const": const, "action_entry_const": const, "action_data": data}
        self.add_table(name, keys, actions, next_tables, after, default)
        if keys:
            self.fill(name, keys, actions, widths)
        return name

    def add_table(
        self, name: str, keys: list[Json], actions: list[int], following: Json, after: str | None, default: Json
    ) -> None:
        kind = keys[0]["match_type"] if keys else "exact"
        self.nodes += 1
        self.tables.append({
            "name": name, "id": self.nodes, "key": keys, "match_type": kind, "type": "simple", "max_size": 64,
            "with_counters": False, "support_timeout": False, "direct_meters": None, "action_ids": actions,
            "actions": [f"action{n}" for n in actions], "base_default_next": after, "next_tables": following,
            "default_entry": default,
        })  # fmt: skip

    def key(self, kind: str) -> Json:
        choice = [ref for ref in WIDTHS if ref not in SIGNED]
        return {"match_type": kind, "name": f"k{self.number}", "target": list(self.random.choice(choice)), "mask": None}

    def fill(self, name: str, keys: list[Json], actions: list[int], widths: list[list[int]]) -> None:
        """Entries of a table, by a control plane or const; larger priorities win, in const ones smaller."""
        known = set()
        const = self.tables[-1].setdefault("entries", []) if self.random.random() < 0.3 else None
        for priority in range(1, self.random.randrange(2, 5)):
            match = tuple(self.match(key) for key in keys)
            if match in known:
                continue
            known.add(match)
            which = self.random.randrange(2)
            args = tuple(self.random.getrandbits(w) for w in widths[which])
            rank = priority if any(key["match_type"] == "ternary" for key in keys) else 0
            entry = name, match, rank, actions[which], args
            if const is None:
                self.entries.append(entry)
            else:
                self.const_entries.append(entry)
                const.append({
                    "match_key": [self.const_match(key, one) for key, one in zip(keys, match, strict=True)],
                    "action_entry": {"action_id": actions[which], "action_data": [hex(arg) for arg in args]},
                    "priority": 10 - priority,
                })  # fmt: skip

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

    def const_match(self, key: Json, match: Any) -> Json:
        """A match as p4c writes it: bits outside the mask or behind the prefix stay as the programmer wrote them."""
        width = WIDTHS[tuple(key["target"])]
        if isinstance(match, int):
            return {"match_type": "exact", "key": padded(match, width)}
        value, second = match
        kept = second if key["match_type"] == "ternary" else (1 << width) - (1 << width - second)
        noise = self.random.choice([0, self.random.getrandbits(width)]) & ~kept
        more = {"mask": padded(second, width)} if key["match_type"] == "ternary" else {"prefix_length": second}
        return {"match_type": key["match_type"], "key": padded(value | noise, width)} | more

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
        change = {"op": "primitive", "parameters": [self.parts.header_operation()]}
        changes = [change] if self.random.random() < 0.3 else []
        verify = {"op": "verify", "parameters": [self.parts.boolean([], 1), hexstr(2)]}
        state("start", [extract("regular", "first"), *([sets] if self.random.random() < 0.5 else [])],
              [field(("first", "kind"))], [(1, None, "second"), (2, 0x0F, "stack"), (4, None, "options"),
               (5, None, "either"), (0x80, 0x80, "third")])  # fmt: skip
        state("second", [extract("regular", "second"), *([verify] if self.random.random() < 0.3 else [])],
              [field(("second", "kind"))], [(1, None, "third"), (2, 2, "stack")])  # fmt: skip
        state("third", [extract("regular", "third")], [field(("third", "kind"))], [(3, None, "stack")])
        last = {"type": "stack_field", "value": ["s", "tag"]}
        state(
            "stack",
            [extract("stack", "s"), *changes],
            [last],
            [(1, None, "stack" if loops else "more"), (7, None, "ahead")],
        )
        state("more", [extract("stack", "s")], [], [])
        m1 = field(("scalars", "m1"))
        ahead = {"op": "set", "parameters": [m1, {"type": "lookahead", "value": [4, 12]}]}
        state("ahead", [ahead], [], [])
        length = {"type": "expression", "value": operation("<<", operation("&", m1, hexstr(0x1F)), hexstr(3))}
        measured = [
            {"op": "set", "parameters": [m1, source]} for source in ({"type": "lookahead", "value": [0, 8]}, length)
        ]
        size = {"type": "expression", "value": m1}
        options, spare = (
            {"op": "extract_VL", "parameters": [{"type": "regular", "value": name}, size]}
            for name in ("options", "spare")
        )
        state("options", [*measured, options], [field(("options", "after"))],
              [(1, None, "either"), (9, None, "spare"), (2, 2, "stack")])  # fmt: skip
        state("spare", [*measured, spare], [field(("spare", "after"))], [(1, None, "either"), (2, 2, "stack")])
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
            if data[0] == 4:
                value = self.random.randbytes(count)
                data += bytes([count]) + value + bytes([pick([1, 2, 9, 9])])
                if data[-1] == 9:
                    value = pick([value, value, bytes(1) + value[:14], value[1:], self.random.randbytes(3)])
                    data += bytes([len(value)]) + value + bytes([pick([1, 2, 8])])
            return data + tail
        data = bytes([pick([0, 1, 1, 2, 2, 0x80, 0x92, 0xFF])]) + self.random.randbytes(9)
        data += bytes([pick([0, 1, 2, 3, 7])]) + self.random.randbytes(19)
        data += bytes([pick([1, 3, 7])]) + self.random.randbytes(19)
        data += bytes([pick([1, 7, 0]), 5, pick([1, 7, 0]), 6, 1, 7]) + self.random.randbytes(6)
        return data if self.random.random() < 0.8 else data[: self.random.randrange(len(data))]
