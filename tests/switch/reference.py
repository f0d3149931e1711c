"""A slow v1model switch that interprets BMv2 JSON step by step: what softswitch's generated code is compared with.

It shares no code with softswitch (except hash functions) and knows no shortcut. Rates, meters and time are left out.
"""

from typing import Any

from reference_values import Evaluator, Instance, Json, to_bytes

from mrclab.softswitch.objects import hashing

DROP = 511
MAX_ROUNDS = 200
"""A program may send packets round and round forever."""
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
          "ParserInvalidArgument")  # fmt: skip


class ParserError(Exception):
    """Carries the error's number."""


class Packet:
    """A packet on its way: headers, stack positions, the data behind the headers, and what primitives asked for."""

    def __init__(self, root: Json, data: bytes, port: int, length: int) -> None:
        kinds = {t["name"]: t for t in root["header_types"]}
        self.headers = {h["name"]: Instance(kinds[h["header_type"]], h["metadata"]) for h in root["headers"]}
        self.next = {s["name"]: 0 for s in root["header_stacks"]}
        self.data, self.original, self.position = data, data, 0
        self.port, self.length = port, length
        self.flags: dict[str, int] = {}
        self.cut = 1 << 31
        self.exited = False

    def peek(self, offset: int, width: int) -> int:
        return int("".join(f"{byte:08b}" for byte in self.data[self.position :])[offset : offset + width], 2)


class Reference:
    """One switch. `entries[table]` holds (match, priority, action id, args)."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.eval = Evaluator(root)
        self.actions = {a["id"]: a for a in root["actions"]}
        self.pipelines = {p["name"]: p for p in root["pipelines"]}
        self.aliases = {alias: tuple(target) for alias, target in root["field_aliases"]}
        self.nodes = {
            (name, n["name"]): n
            for name, p in self.pipelines.items() for n in [*p["tables"], *p["conditionals"]]
        }  # fmt: skip
        self.tables = {t["name"]: t for p in self.pipelines.values() for t in p["tables"]}
        self.entries: dict[str, list[Any]] = {name: [] for name in self.tables}
        self.defaults: dict[str, Any] = {}
        for name, table in self.tables.items():
            entry = table.get("default_entry")
            self.defaults[name] = (
                (entry["action_id"], tuple(int(v, 16) for v in entry["action_data"])) if entry else None
            )
        self.packets = {c["name"]: [0] * c.get("size", 0) for c in root["counter_arrays"]}
        self.bytes = {c["name"]: [0] * c.get("size", 0) for c in root["counter_arrays"]}
        self.registers = {r["name"]: [0] * r["size"] for r in root["register_arrays"]}
        self.widths = {r["name"]: r["bitwidth"] for r in root["register_arrays"]}
        self.value_sets: dict[str, set[int]] = {v["name"]: set() for v in root.get("parse_vsets", [])}
        self.multicast: dict[int, list[tuple[int, int]]] = {}
        self.clones: dict[int, list[tuple[int, int]]] = {}
        self.hashes = {c["name"]: hashing.make(c["algo"]) for c in root["calculations"]}
        self.pending: list[Any] = []
        self.queued: list[tuple[Packet, int, int]] = []
        self.out: list[tuple[int, bytes]] = []

    # -- fields -------------------------------------------------------------------------------------------------------

    def _place(self, packet: Packet, header: str, name: str) -> tuple[Instance, str] | None:
        header, name = self.aliases.get(f"{header}.{name}", (header, name))
        instance = packet.headers.get(header)
        return (instance, name) if instance is not None and name in instance.widths else None

    def put(self, packet: Packet, header: str, name: str, value: int) -> None:
        place = self._place(packet, header, name)
        if place:
            place[0].set(place[1], value)

    def get(self, packet: Packet, header: str, name: str) -> int:
        place = self._place(packet, header, name)
        return place[0].values[place[1]] if place else 0

    def error(self, name: str) -> int:
        known = dict(self.root["errors"])
        missing = [error for error in ERRORS if error not in known]
        return known[name] if name in known else max(known.values(), default=-1) + 1 + missing.index(name)

    # -- parser -------------------------------------------------------------------------------------------------------

    def parse(self, packet: Packet) -> None:
        states = {s["name"]: s for s in self.root["parsers"][0]["parse_states"]}
        name = self.root["parsers"][0]["init_state"]
        error = self.error("NoError")
        try:
            while name is not None:
                state = states[name]
                for op in state["parser_ops"]:
                    self._parser_op(packet, op)
                name = self._select(packet, state)
        except ParserError as failure:
            error = failure.args[0]
        self.put(packet, "standard_metadata", "parser_error", error)
        wrong = 0
        for checksum in self.root["checksums"]:
            header, field = checksum["target"]
            if not checksum.get("verify", True) or not packet.headers[header].valid:
                continue
            if not checksum.get("if_cond") or self.eval.value(packet, checksum["if_cond"]):
                wrong |= self._calculate(packet, checksum["calculation"]) != packet.headers[header].values[field]
        self.put(packet, "standard_metadata", "checksum_error", int(wrong))

    def _need(self, packet: Packet, count: int) -> None:
        if len(packet.data) - packet.position < count:
            raise ParserError(self.error("PacketTooShort"))

    def _check_lookahead(self, packet: Packet, node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "lookahead":
                self._need(packet, (sum(node["value"]) + 7) // 8)
            for part in node.values():
                self._check_lookahead(packet, part)

    def _parser_op(self, packet: Packet, op: Json) -> None:
        kind, parameters = op["op"], op["parameters"]
        if kind.startswith("extract"):
            self._extract(packet, parameters)
        elif kind == "set":
            self._check_lookahead(packet, parameters[1])
            packet.headers[parameters[0]["value"][0]].set(
                parameters[0]["value"][1], self.eval.value(packet, parameters[1])
            )
        elif kind == "verify":
            if not self.eval.value(packet, parameters[0]):
                raise ParserError(self.eval.value(packet, parameters[1]))
        elif kind == "advance":
            amount = self.eval.value(packet, parameters[0])
            if amount % 8:
                raise ParserError(self.error("ParserInvalidArgument"))
            self._need(packet, amount // 8)
            packet.position += amount // 8
        else:
            self._primitive(packet, parameters[0], ())

    def _extract(self, packet: Packet, parameters: Json) -> None:
        kind, value = parameters[0]["type"], parameters[0]["value"]
        if kind == "stack":
            elements = self.eval.elements(value)
            if packet.next[value] >= len(elements):
                raise ParserError(self.error("StackOutOfBounds"))
            name = elements[packet.next[value]]
        else:
            name = value
        instance = packet.headers[name]
        fixed = sum(width for _, width, _, _ in instance.fields if width != "*")
        varbit = self.eval.value(packet, parameters[1]) if len(parameters) > 1 else 0
        if varbit % 8:
            raise ParserError(self.error("ParserInvalidArgument"))
        self._need(packet, (fixed + varbit) // 8)
        if len(parameters) > 1 and instance.max_bytes and (fixed + varbit) // 8 > instance.max_bytes:
            raise ParserError(self.error("HeaderTooShort"))
        bits = "".join(f"{b:08b}" for b in packet.data[packet.position : packet.position + (fixed + varbit) // 8])
        for field, width, _, _ in instance.fields:
            size = varbit if width == "*" else width
            piece, bits = bits[:size], bits[size:]
            instance.set(field, to_bytes(piece) if width == "*" else int(piece or "0", 2))
        packet.position += (fixed + varbit) // 8
        self._make_valid(packet, name)
        if kind == "stack":
            packet.next[value] += 1

    def _make_valid(self, packet: Packet, name: str) -> None:
        for members in self.eval.unions.values():
            if name in members.values():
                for other in members.values():
                    packet.headers[other].valid = False
        packet.headers[name].valid = True

    def _select(self, packet: Packet, state: Json) -> str | None:
        default = None
        key = 0
        for node in state["transition_key"]:
            self._check_lookahead(packet, node)
        for node in state["transition_key"]:
            value = self.eval.value(packet, node)
            if node["type"] == "lookahead":
                width = node["value"][1]
            elif node["type"] == "stack_field":
                width = packet.headers[self.eval.elements(node["value"][0])[0]].widths[node["value"][1]]
            else:
                width = (
                    1 if node["value"][1] == "$valid$" else packet.headers[node["value"][0]].widths[node["value"][1]]
                )
            key = key << (width + 7) // 8 * 8 | (value & ((1 << width) - 1))
        for case in state["transitions"]:
            if case["type"] == "default":
                default = case["next_state"]
            elif case["type"] == "parse_vset":
                if key in self.value_sets[case["value"]]:
                    return case["next_state"]
            else:
                mask = -1 if case["mask"] is None else int(case["mask"], 16)
                if state["transition_key"] and key & mask == int(case["value"], 16) & mask:
                    return case["next_state"]
        return default

    # -- match-action -------------------------------------------------------------------------------------------------

    def apply(self, packet: Packet, name: str) -> None:
        packet.exited = False
        node_name = self.pipelines[name]["init_table"]
        while node_name is not None and not packet.exited:
            node = self.nodes[name, node_name]
            if "expression" in node:
                cond = self.eval.value(packet, node["expression"])
                node_name = node["true_next"] if cond else node["false_next"]
            else:
                node_name = self._apply_table(packet, node)

    def _apply_table(self, packet: Packet, table: Json) -> str | None:
        entry = self._lookup(packet, table)
        choice = entry or self.defaults[table["name"]]
        following = table["next_tables"]
        if choice is None:
            return following.get("__MISS__", table["base_default_next"])
        number, args = choice
        self._run(packet, number, args)
        if "__HIT__" in following or "__MISS__" in following:
            return following.get("__HIT__" if entry else "__MISS__")
        return following.get(self.actions[number]["name"], table["base_default_next"])

    def _lookup(self, packet: Packet, table: Json) -> Any:
        best: Any = None
        for entry in self.entries[table["name"]]:
            match, priority, number, args = entry
            if all(self._matches(packet, key, m) for key, m in zip(table["key"], match, strict=True)):
                rank = priority if table["match_type"] != "lpm" else max(
                    m[1] for key, m in zip(table["key"], match, strict=True) if key["match_type"] == "lpm"
                )  # fmt: skip
                if table["key"] and (best is None or rank > best[0]):
                    best = rank, (number, args)
        return best and best[1]

    @staticmethod
    def _matches(packet: Packet, key: Json, match: Any) -> bool:
        header, field = key["target"]
        instance = packet.headers[header]
        value = int(instance.valid) if field == "$valid$" else instance.raw(field)
        kind = key["match_type"]
        if kind == "exact":
            return value == match
        if kind == "range":
            return match[0] <= value <= match[1]
        if kind == "lpm":
            shift = instance.widths[field] - match[1]
            return value >> shift == match[0] >> shift
        return value & match[1] == match[0]

    def _run(self, packet: Packet, number: int, args: tuple[int, ...]) -> None:
        calls = self.actions[number]["primitives"]
        index = 0
        while index < len(calls):
            call = calls[index]
            index += 1
            if call["op"] == "_jump":
                index = self.eval.value(packet, call["parameters"][0], args)
            elif call["op"] == "_jump_if_zero":
                if not self.eval.value(packet, call["parameters"][0], args):
                    index = self.eval.value(packet, call["parameters"][1], args)
            else:
                self._primitive(packet, call, args)

    # -- primitives ---------------------------------------------------------------------------------------------------

    def _assign(self, packet: Packet, target: Json, value: Any, args: tuple[int, ...]) -> None:
        if target["type"] == "expression":
            node = target["value"] if "op" in target["value"] else target["value"]["value"]
            instance = packet.headers[self.eval.header(packet, node["left"], args)]
            instance.set(list(instance.values)[node["right"]], value)
        elif target["type"] == "stack_field":
            name = self.eval.elements(target["value"][0])[packet.next[target["value"][0]] - 1]
            packet.headers[name].set(target["value"][1], value)
        else:
            packet.headers[target["value"][0]].set(target["value"][1], value)

    def _primitive(self, packet: Packet, call: Json, args: tuple[int, ...]) -> None:  # noqa: C901, PLR0912 - one case per primitive
        op, parameters = call["op"], call["parameters"]

        def value(index: int) -> Any:
            return self.eval.value(packet, parameters[index], args)

        if op in {"assign", "assign_VL"}:
            self._assign(packet, parameters[0], value(1), args)
        elif op == "assign_header":
            self._copy(packet, *(self.eval.header(packet, parameter, args) for parameter in parameters))
        elif op == "add_header":
            name = self.eval.header(packet, parameters[0], args)
            if not packet.headers[name].valid:
                packet.headers[name].clear()
                self._resize(packet, name, 1)
            self._make_valid(packet, name)
        elif op == "remove_header":
            name = self.eval.header(packet, parameters[0], args)
            if packet.headers[name].valid:
                self._resize(packet, name, -1)
            packet.headers[name].valid = False
        elif op in {"push", "pop"}:
            self._shift(packet, parameters[0]["value"], value(1) if op == "push" else -value(1))
        elif op == "mark_to_drop":
            self.put(packet, "standard_metadata", "egress_spec", DROP)
            self.put(packet, "intrinsic_metadata", "mcast_grp", 0)
        elif op == "exit":
            packet.exited = True
        elif op == "count":
            if value(1) < len(self.packets[parameters[0]["value"]]):
                self.packets[parameters[0]["value"]][value(1)] += 1
                self.bytes[parameters[0]["value"]][value(1)] += packet.length
        elif op == "register_read":
            if value(2) < len(self.registers[parameters[1]["value"]]):
                self._assign(packet, parameters[0], self.registers[parameters[1]["value"]][value(2)], args)
        elif op == "register_write":
            name = parameters[0]["value"]
            if value(1) < len(self.registers[name]):
                self.registers[name][value(1)] = value(2) & ((1 << self.widths[name]) - 1)
        elif op == "modify_field_with_hash_based_offset":
            hashed = self._calculate(packet, parameters[2]["value"])
            self._assign(packet, parameters[0], hashed % (value(3) or 1) + value(1), args)
        elif op.startswith("clone_"):
            packet.flags |= {"clone": value(0) | 1 << 15, "clone_list": value(1)}
        elif op in {"resubmit", "recirculate"}:
            packet.flags[op] = value(0)
        elif op == "truncate":
            packet.cut = min(packet.cut, value(0))
        else:
            assert op in {"log_msg", "assert", "assume", "no_op"}, f"the reference does not know {op}"

    def _resize(self, packet: Packet, name: str, sign: int) -> None:
        packet.flags["resized"] = packet.flags.get("resized", 0) + sign * len(packet.headers[name].bits()) // 8

    def _copy(self, packet: Packet, target: str, source: str) -> None:
        if packet.headers[source].valid:
            values = dict(packet.headers[source].values)
            self._make_valid(packet, target)
            packet.headers[target].values = values
        else:
            packet.headers[target].valid = False

    def _shift(self, packet: Packet, stack: str, count: int) -> None:
        elements = self.eval.elements(stack)
        old = [(packet.headers[name].valid, packet.headers[name].values) for name in elements]
        for index, name in enumerate(elements):
            source = index - count
            inside = 0 <= source < len(elements)
            packet.headers[name].valid = inside and old[source][0]
            if inside:
                packet.headers[name].values = dict(old[source][1])
            else:
                packet.headers[name].clear()  # BMv2 leaves there what some other element had
        packet.next[stack] = min(max(packet.next[stack] + count, 0), len(elements))

    def _calculate(self, packet: Packet, name: str) -> int:
        calculation = next(c for c in self.root["calculations"] if c["name"] == name)
        bits, payload = "", b""
        for source in calculation["input"]:
            kind, value = source["type"], source.get("value")
            if kind == "payload":
                payload = packet.data[packet.position :]
            elif kind == "hexstr":
                bits += f"{int(value, 16):0{source['bitwidth']}b}"
            elif kind == "header" and packet.headers[value].valid:
                bits += packet.headers[value].bits()
            elif kind == "field" and packet.headers[value[0]].valid:
                instance = packet.headers[value[0]]
                if instance.widths[value[1]] == "*":
                    bits += "".join(f"{byte:08b}" for byte in instance.values[value[1]])
                else:
                    bits += f"{instance.raw(value[1]):0{instance.widths[value[1]]}b}"
        return self.hashes[name](to_bytes(bits) + payload)

    # -- the way of a packet ------------------------------------------------------------------------------------------

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Everything that leaves because of one frame, in order."""
        self.out = []
        packet = Packet(self.root, frame, port, len(frame))
        self.put(packet, "standard_metadata", "ingress_port", port)
        self.pending = [packet]
        rounds = 0
        while (self.pending or self.queued) and rounds < MAX_ROUNDS:
            rounds += 1
            if self.queued:
                self._egress(*self.queued.pop(0))
            else:
                self._ingress(self.pending.pop(0))
        return self.out

    def _fields(self, packet: Packet, number: int) -> dict[tuple[str, str], int]:
        found = next((f for f in self.root["field_lists"] if f["id"] == number), {"elements": []})
        refs = [tuple(e["value"]) for e in found["elements"] if e["type"] == "field"]
        return {ref: packet.headers[ref[0]].values[ref[1]] for ref in refs}

    def _with_metadata(self, packet: Packet, kept: dict[tuple[str, str], int], instance: int) -> None:
        for header in packet.headers.values():
            if header.metadata:
                header.clear()
        for (header, name), value in kept.items():
            packet.headers[header].set(name, value)
        self.put(packet, "standard_metadata", "instance_type", instance)

    def _ingress(self, packet: Packet) -> None:
        self.put(packet, "standard_metadata", "packet_length", packet.length)
        self.parse(packet)
        self.apply(packet, "ingress")
        flags = packet.flags
        if flags.get("clone"):
            copy = Packet(self.root, packet.original, packet.port, packet.length)
            self.put(copy, "standard_metadata", "ingress_port", packet.port)
            self.parse(copy)
            self._with_metadata(copy, self._fields(packet, flags["clone_list"]), 1)
            self._clone_to(copy, flags.pop("clone") & 0x7FFF)
        if flags.get("resubmit"):
            again = Packet(self.root, packet.original, packet.port, packet.length)
            self._with_metadata(again, self._fields(packet, flags["resubmit"]), 6)
            self.pending.append(again)
            return
        group, port = (
            self.get(packet, h, n)
            for h, n in (("intrinsic_metadata", "mcast_grp"), ("standard_metadata", "egress_spec"))
        )
        if group:
            self.put(packet, "standard_metadata", "instance_type", 5)
            self._copies(packet, self.multicast.get(group, []))
        elif port != DROP:
            self.put(packet, "standard_metadata", "instance_type", 0)
            self.queued.append((packet, port, 0))

    def _copies(self, packet: Packet, replicas: list[tuple[int, int]]) -> None:
        rids = list(dict.fromkeys(rid for _, rid in replicas))
        for rid in reversed(rids):
            for port in sorted(p for p, r in replicas if r == rid):
                self.queued.append((self._duplicate(packet), port, rid))

    def _clone_to(self, packet: Packet, session: int) -> None:
        self._copies(packet, self.clones.get(session, []))

    def _duplicate(self, packet: Packet) -> Packet:
        copy = Packet(self.root, packet.data, packet.port, packet.length)
        copy.original, copy.position, copy.next = packet.original, packet.position, dict(packet.next)
        for name, instance in packet.headers.items():
            copy.headers[name].copy_from(instance)
        copy.flags = {"resized": packet.flags.get("resized", 0)}
        return copy

    def _egress(self, packet: Packet, port: int, rid: int) -> None:
        self.put(packet, "intrinsic_metadata", "egress_rid", rid)
        self.put(packet, "standard_metadata", "egress_port", port)
        self.put(packet, "standard_metadata", "egress_spec", 0)
        self.put(packet, "standard_metadata", "packet_length", packet.length + packet.flags.get("resized", 0))
        self.apply(packet, "egress")
        flags = packet.flags
        if flags.get("clone"):
            copy = self._duplicate(packet)
            self._with_metadata(copy, self._fields(packet, flags["clone_list"]), 2)
            self._clone_to(copy, flags.pop("clone") & 0x7FFF)
        if self.get(packet, "standard_metadata", "egress_spec") == DROP:
            return
        for checksum in self.root["checksums"]:
            if checksum.get("update", True) and (
                not checksum.get("if_cond") or self.eval.value(packet, checksum["if_cond"])
            ):
                header, field = checksum["target"]
                packet.headers[header].set(field, self._calculate(packet, checksum["calculation"]))
        order = self.root["deparsers"][0]["order"]
        data = b"".join(to_bytes(packet.headers[h].bits()) for h in order if packet.headers[h].valid)
        data = (data + packet.data[packet.position :])[: packet.cut]
        if flags.get("recirculate"):
            again = Packet(self.root, data, packet.port, len(data))
            self._with_metadata(again, self._fields(packet, flags["recirculate"]), 4)
            self.pending.append(again)
        else:
            self.out.append((port, data))
