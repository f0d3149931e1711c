"""Values of the slow reference: header instances, and expressions evaluated straight from the JSON."""

from typing import Any

Json = Any


class Instance:
    """A header or metadata instance: validity, field values, and the bytes of its varbit."""

    def __init__(self, kind: Json, metadata: bool) -> None:
        self.fields = [
            (name, width, bool(flags and flags[0]), bool(len(flags) > 1 and flags[1]))
            for name, width, *flags in kind["fields"]
        ]
        self.widths = {name: width for name, width, _, _ in self.fields}
        self.signed = {name: signed for name, _, signed, _ in self.fields}
        self.saturating = {name: saturating for name, _, _, saturating in self.fields}
        self.max_bytes = kind.get("max_length", 0)
        self.metadata = self.valid = metadata
        self.values: dict[str, Any] = {}
        self.clear()

    def clear(self) -> None:
        self.values = {name: b"" if width == "*" else 0 for name, width, _, _ in self.fields}

    def set(self, name: str, value: Any) -> None:
        width = self.widths[name]
        if width == "*":
            self.values[name] = value
            return
        value = int(value)
        if self.saturating[name]:
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if self.signed[name] else (0, (1 << width) - 1)
            value = min(max(value, low), high)
        value &= (1 << width) - 1
        if self.signed[name] and value >> width - 1:
            value -= 1 << width
        self.values[name] = value

    def raw(self, name: str) -> int:
        """The field's bits as an unsigned number."""
        return self.values[name] & ((1 << self.widths[name]) - 1)

    def bits(self) -> str:
        """The header as a string of 0 and 1."""
        text = ""
        for name, width, _, _ in self.fields:
            if width == "*":
                text += "".join(f"{byte:08b}" for byte in self.values[name])
            elif width:
                text += f"{self.raw(name):0{width}b}"
        return text

    def copy_from(self, other: "Instance") -> None:
        self.valid, self.values = other.valid, dict(other.values)


def number(value: Any) -> Any:
    """A value as BMv2 compares it: a varbit is a number, whatever its length."""
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value


def to_bytes(bits: str) -> bytes:
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


class Evaluator:
    """Evaluates type value objects. `packet` has headers, stacks (next index), and the parser's data."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.stacks = {s["name"]: s for s in root["header_stacks"]}
        self.names = {h["id"]: h["name"] for h in root["headers"]}
        union_types = {t["name"]: [member for member, _ in t["headers"]] for t in root.get("header_union_types", [])}
        self.unions = {
            u["name"]: dict(zip(union_types[u["union_type"]], [self.names[i] for i in u["header_ids"]], strict=True))
            for u in root.get("header_unions", [])
        }

    def elements(self, stack: str) -> list[str]:
        return [self.names[i] for i in self.stacks[stack]["header_ids"]]

    def header(self, packet: Any, node: Json, args: tuple[int, ...]) -> str:
        """The name of the header that an expression means."""
        if node["type"] == "header":
            return node["value"]
        value = node["value"]
        if "op" not in value:
            return self.header(packet, value, args)
        assert value["op"] == "dereference_header_stack"
        return self.elements(value["left"]["value"])[self.value(packet, value["right"], args)]

    def value(self, packet: Any, node: Json, args: tuple[int, ...] = ()) -> Any:  # noqa: PLR0911 - one case per operator
        """The value of an expression."""
        kind, value = node["type"], node["value"]
        if kind == "hexstr":
            return int(value, 16)
        if kind == "bool":
            return value
        if kind in {"runtime_data", "local"}:
            return args[value]
        if kind == "field":
            instance = packet.headers[value[0]]
            return int(instance.valid) if value[1] == "$valid$" else instance.values[value[1]]
        if kind == "stack_field":
            last = packet.next[value[0]] - 1
            return packet.headers[self.elements(value[0])[last]].values[value[1]] if last >= 0 else 0
        if kind == "lookahead":
            return packet.peek(*value)
        assert kind == "expression", kind
        return self.value(packet, value, args) if "op" not in value else self._operation(packet, value, args)

    def _operation(self, packet: Any, node: Json, args: tuple[int, ...]) -> Any:  # noqa: PLR0911 - one case per operator
        op, left, right = node["op"], node.get("left"), node.get("right")
        if op == "?":
            return self.value(packet, left if self.value(packet, node["cond"], args) else right, args)
        if op in {"valid", "valid_union"}:
            if op == "valid_union":
                return any(packet.headers[h].valid for h in self.unions[right["value"]].values())
            return packet.headers[self.header(packet, right, args)].valid
        if op == "access_field":
            instance = packet.headers[self.header(packet, left, args)]
            return list(instance.values.values())[right]
        if op in {"last_stack_index", "size_stack"}:
            return packet.next[right["value"]] - (op == "last_stack_index")
        if left is not None and left["type"] == "header":
            return self._same(packet.headers[left["value"]], packet.headers[right["value"]]) == (op == "==")
        b = number(self.value(packet, right, args))
        if left is None:
            return {"not": lambda: not b, "~": lambda: ~b, "-": lambda: -b, "+": lambda: b, "d2b": lambda: b != 0,
                    "b2d": lambda: int(b)}[op]()  # fmt: skip
        return self._binary(op, number(self.value(packet, left, args)), b)

    @staticmethod
    def _same(a: Instance, b: Instance) -> bool:
        return a.valid and b.valid and [number(v) for v in a.values.values()] == [number(v) for v in b.values.values()]

    @staticmethod
    def _binary(op: str, a: Any, b: Any) -> Any:
        half = 1 << (b - 1) if op in {"two_comp_mod", "sat_cast"} else 0
        return {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a // b, "%": lambda: a % b,
            "<<": lambda: a << b if b < 4096 else 0, ">>": lambda: a >> b, "&": lambda: a & b, "|": lambda: a | b,
            "^": lambda: a ^ b, "==": lambda: a == b, "!=": lambda: a != b, "<": lambda: a < b, "<=": lambda: a <= b,
            ">": lambda: a > b, ">=": lambda: a >= b, "and": lambda: a and b, "or": lambda: a or b,
            "two_comp_mod": lambda: (a + half) % (2 * half) - half,
            "sat_cast": lambda: min(max(a, -half), half - 1),
            "usat_cast": lambda: min(max(a, 0), (1 << b) - 1),
        }[op]()  # fmt: skip
