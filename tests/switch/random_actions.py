"""Parts of random programs: headers and metadata, and random expressions, primitives and actions over them."""

import random
from typing import Any

Json = dict[str, Any]

STANDARD = [
    ["ingress_port", 9, False], ["egress_spec", 9, False], ["egress_port", 9, False], ["instance_type", 32, False],
    ["packet_length", 32, False], ["mcast_grp", 16, False], ["egress_rid", 16, False], ["checksum_error", 1, False],
    ["parser_error", 32, False], ["priority", 3, False], ["_padding", 9, False],
]  # fmt: skip
TYPES = {
    "scalars_t": [["m0", 8, False], ["m1", 16, False], ["m2", 1, False], ["m3", 33, False], ["m4", 8, True],
                  ["m5", 128, False], ["rounds", 8, False], ["lap0", 8, False], ["lap1", 8, False],
                  ["lap2", 8, False], ["_padding", 6, False]],
    "first_t": [["kind", 8, False], ["a", 4, False], ["b", 12, False], ["c", 48, False], ["d", 8, True]],
    "second_t": [["kind", 8, False], ["x", 3, False], ["y", 20, False], ["z", 1, False], ["w", 128, False]],
    "element_t": [["tag", 8, False], ["value", 8, False]],
    "options_t": [["length", 8, False], ["data", "*"], ["after", 8, False]],
    "short_t": [["value", 8, False]],
    "long_t": [["value", 16, False], ["more", 8, True]],
}  # fmt: skip
HEADERS = {
    "first": "first_t", "second": "second_t", "third": "second_t", "s[0]": "element_t", "s[1]": "element_t",
    "options": "options_t", "spare": "options_t", "either.small": "short_t", "either.large": "long_t",
}  # fmt: skip
LONGEST = {"options_t": 2 + 15}
"""Most bytes of a header with a varbit."""
CLONES = {1: [(1, 0)], 2: [(3, 5), (2, 6)]}
MULTICAST = {1: [(1, 7), (2, 8), (2, 9)]}
KEPT = {1: ["rounds", "m1", "m4"], 2: ["rounds", "m5", "m2", "m3"], 3: ["rounds"]}
"""Field lists: metadata that a copy keeps. `rounds` tells that a packet had its turn, or it would go on forever."""
LAPS = ("lap0", "lap1", "lap2")
"""Metadata that counts the laps of loops: of two nested ones in actions, and of one between tables."""
ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
          "ParserInvalidArgument"]  # fmt: skip
WIDTHS = {
    (header, name): width
    for header, kind in [*HEADERS.items(), ("scalars", "scalars_t")] for name, width, *_ in TYPES[kind]
    if width != "*" and name not in {"rounds", "_padding", *LAPS}
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


def header(name: str) -> Json:
    return {"type": "header", "value": name}


def operation(op: str, left: Json | None, right: Json, **more: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right, **more}}


class Actions:
    """Random actions; `made` are those so far. `in_egress` tells which ways of copying a packet there are."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.made: list[Json] = []
        self.in_egress = False

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
        if choice < 0.62:
            return operation("not", None, self.boolean(params, depth - 1))
        if choice < 0.65:
            one, other = self.random.choice([
                (field(("options", "data")), field(("spare", "data"))),
                (header("options"), header("spare")),
                (header("second"), header("third")),
            ])  # fmt: skip
            return operation(self.random.choice(["==", "!="]), one, other)
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
        if choice < 0.5:
            return self.assignment(params)
        if choice < 0.8:
            return self.header_operation()
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

    def header_operation(self) -> Json:
        choice = self.random.random()
        one = header(self.random.choice(list(HEADERS)))
        if choice < 0.3:
            return self.call("add_header", one)
        if choice < 0.6:
            return self.call("remove_header", one)
        if choice < 0.9:
            alike = self.random.choice(
                [["second", "third"], ["second", "third"], ["s[0]", "s[1]"], ["options", "spare"]]
            )
            return self.call("assign_header", *map(header, self.random.sample(alike, 2)))
        return self.call("assign_VL", *(field((name, "data")) for name in self.random.sample(["options", "spare"], 2)))

    def loop(self, params: list[int], start: int, depth: int = 0) -> list[Json]:
        """Primitives that run several times, as p4c writes `for`: a test in front, a step and a jump back behind.

        Some go on to the step, or leave, from the middle. `start` is the position of the first.
        """
        lap = field(("scalars", LAPS[depth]))
        head = [
            self.call("assign", lap, hexstr(0)),
            self.call("_jump_if_zero", self.condition(operation("<", lap, self.limit())), hexstr(0)),
        ]
        body = [self.primitive(params) for _ in range(self.random.randrange(1, 4))]
        early = self.random.choice([None, None, "step", "end"])
        if early:
            body.append(self.call("_jump_if_zero", self.condition(self.boolean(params)), hexstr(0)))
        jump = body[-1]
        body += [self.primitive(params) for _ in range(self.random.randrange(2))]
        if depth == 0 and self.random.random() < 0.3:
            body += self.loop(params, start + len(head) + len(body), 1)
        more = {"type": "expression", "value": operation("+", lap, hexstr(1))}
        step = start + len(head) + len(body)
        end = step + 2
        head[1]["parameters"][1] = hexstr(end)
        if early:
            assert jump["op"] == "_jump_if_zero"
            jump["parameters"][1] = hexstr({"step": step, "end": end}[early])
        return [*head, *body, self.call("assign", lap, more), self.call("_jump", hexstr(start + 1))]

    def limit(self) -> Json:
        """Number of iterations of a loop: a few, known or not."""
        known = hexstr(self.random.randrange(4))
        return known if self.random.random() < 0.4 else operation("&", self.arithmetic([], 0), hexstr(3))

    @staticmethod
    def condition(node: Json) -> Json:
        return {"type": "expression", "value": operation("b2d", None, node)}

    def action(self, widths: list[int]) -> int:
        calls = [self.primitive(widths) for _ in range(self.random.randrange(4))]
        if self.random.random() < 0.3:
            cond = self.condition(self.boolean(widths))
            inside = [self.primitive(widths) for _ in range(self.random.randrange(1, 3))]
            other = [self.primitive(widths) for _ in range(self.random.randrange(1, 3))]
            start = len(calls)
            calls.append(self.call("_jump_if_zero", cond, hexstr(start + len(inside) + 2)))
            calls += [*inside, self.call("_jump", hexstr(start + len(inside) + 2 + len(other))), *other]
        if self.random.random() < 0.15:
            calls += self.loop(widths, len(calls))
        if self.random.random() < 0.12:
            calls += self.copy(len(calls))
        if calls and self.random.random() < 0.03:
            calls.append(self.call("exit"))
        return self.made_of(calls, widths)

    def made_of(self, calls: list[Json], widths: list[int]) -> int:
        """The number of a new action."""
        number = len(self.made)
        params = [{"name": f"p{i}", "bitwidth": width} for i, width in enumerate(widths)]
        self.made.append({"name": f"action{number}", "id": number, "runtime_data": params, "primitives": calls})
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
        first = self.condition(operation("==", rounds, hexstr(0)))
        chosen = [self.call("assign", rounds, hexstr(1)), self.random.choice(kinds)]
        return [self.call("_jump_if_zero", first, hexstr(start + 1 + len(chosen))), *chosen]
