"""Reads BMv2 JSON (format 2.x, docs/JSON_format.md of behavioral-model) into a `Program`.

Anything that is not known here is refused with its name and P4 source line.
"""

from __future__ import annotations

import json
from typing import Any

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.bmv2expr import ExpressionReader, hexstr, naming, where

Json = dict[str, Any]


def load(text: str | bytes) -> p4.Program:
    """Return the program in `text`. Raises PipelineError naming what is wrong or not supported."""
    try:
        root = json.loads(text)
    except ValueError as error:
        raise PipelineError(f"device configuration is not JSON: {error}") from error
    if not isinstance(root, dict) or "header_types" not in root:
        raise PipelineError("device configuration is not BMv2 JSON: it has no header_types; give p4c's .json output")
    version = root.get("__meta__", {}).get("version", [2, 0])
    if version[0] != 2:
        raise PipelineError(f"BMv2 JSON version {version[0]}.{version[1]} is not supported: 2.x is")
    try:
        return _Loader(root).program
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise PipelineError(f"BMv2 JSON is malformed: {type(error).__name__} {error}") from error


class _Loader:
    """One pass over the JSON, in the order of dependence."""

    def __init__(self, root: Json) -> None:
        self.root = root
        self.program = p4.Program()
        self.read = ExpressionReader(self.program)
        for instance in root.get("extern_instances", []):
            raise PipelineError(f"extern {instance.get('type')} {instance.get('name')}{where(instance)}: not supported")
        self._headers()
        self._stacks_and_unions()
        self._aliases()
        self.program.errors = dict(root.get("errors", []))
        self._resources()
        self._calculations()
        self._lists()
        self._actions()
        self._parser()
        self._deparser()
        for pipeline in root.get("pipelines", []):
            self._pipeline(pipeline)
        if {"ingress", "egress"} - set(self.program.pipelines):
            raise PipelineError("BMv2 JSON has no ingress and egress pipeline: only v1model programs are supported")
        if {"ingress", "egress"} != set(self.program.pipelines):
            raise PipelineError(f"pipelines {sorted(self.program.pipelines)}: only ingress and egress are supported")

    # -- data ---------------------------------------------------------------------------------------------------------

    def _headers(self) -> None:
        types: dict[str, p4.HeaderType] = {}
        for item in self.root["header_types"]:
            types[item["name"]] = self._header_type(item)
        self.header_names: dict[int, str] = {}
        for item in self.root["headers"]:
            header = p4.Header(item["name"], types[item["header_type"]], bool(item["metadata"]))
            if not header.metadata and header.type.bits % 8:
                raise PipelineError(f"header {header.name}: {header.type.bits} bits are no whole number of bytes")
            self.program.headers[header.name] = header
            self.header_names[item["id"]] = header.name

    def _header_type(self, item: Json) -> p4.HeaderType:
        fields, offset = [], 0
        for name, width, *flags in item["fields"]:
            signed, saturating = [*flags, False, False][:2]
            varbit = width == "*"
            bits = 0 if varbit else int(width)
            fields.append(p4.Field(name, bits, bool(signed), bool(saturating), offset, varbit))
            offset += bits
        length = item.get("length_exp")
        return p4.HeaderType(
            item["name"],
            tuple(fields),
            offset,
            item.get("max_length", 0),
            self.read.expr(length) if length is not None else None,
        )

    def _stacks_and_unions(self) -> None:
        names, program = self.header_names, self.program
        for item in self.root.get("header_stacks", []):
            program.stacks[item["name"]] = p4.Stack(item["name"], tuple(names[i] for i in item["header_ids"]))
        union_types = {t["name"]: t for t in self.root.get("header_union_types", [])}
        union_names: dict[int, str] = {}
        for item in self.root.get("header_unions", []):
            members = [member for member, _ in union_types[item["union_type"]]["headers"]]
            instances = [names[i] for i in item["header_ids"]]
            program.unions[item["name"]] = p4.Union(item["name"], dict(zip(members, instances, strict=True)))
            union_names[item["id"]] = item["name"]
            for instance in instances:
                header = program.headers[instance]
                program.headers[instance] = p4.Header(header.name, header.type, header.metadata, item["name"])
        for item in self.root.get("header_union_stacks", []):
            elements = tuple(union_names[i] for i in item["header_union_ids"])
            program.stacks[item["name"]] = p4.Stack(item["name"], elements, union=True)

    def _aliases(self) -> None:
        for source, (header, name) in self.root.get("field_aliases", []):
            instance, _, field = source.rpartition(".")
            known = self.program.headers.get(header)
            if known is not None and any(f.name == name for f in known.type.fields):
                self.program.aliases[instance, field] = p4.FieldRef(header, name)

    def _resources(self) -> None:
        program = self.program
        for item in self.root.get("meter_arrays", []):
            target = item.get("result_target")
            program.meters[item["name"]] = p4.Meter(
                item["name"],
                item.get("size", 0),
                item["type"] == "packets",
                item["rate_count"],
                bool(item.get("is_direct")),
                item.get("binding"),
                self.read.field(target) if item.get("is_direct") and target else None,
            )
            if item["rate_count"] != 2:
                raise PipelineError(f"meter {item['name']}{where(item)}: {item['rate_count']} rates; only 2 supported")
        for item in self.root.get("counter_arrays", []):
            direct = bool(item.get("is_direct"))
            program.counters[item["name"]] = p4.Counter(item["name"], item.get("size", 0), direct, item.get("binding"))
        for item in self.root.get("register_arrays", []):
            program.registers[item["name"]] = p4.Register(
                item["name"], item["size"], item["bitwidth"], bool(item.get("signed", False))
            )
        for item in self.root.get("parse_vsets", []):
            program.value_sets[item["name"]] = item["compressed_bitwidth"]

    def _calculations(self) -> None:
        for item in self.root.get("calculations", []):
            inputs, payload = [], False
            for source in item["input"]:
                if source["type"] == "payload":
                    payload = True
                else:
                    inputs.append(self.read.sized(source))
            calculation = p4.Calculation(item["name"], item["algo"], tuple(inputs), payload)
            self.program.calculations[item["name"]] = calculation
        checksums = []
        for item in self.root.get("checksums", []):
            condition = item.get("if_cond")
            if item["type"] != "generic":
                raise PipelineError(f"checksum {item['name']}{where(item)}: type {item['type']} is not supported")
            checksums.append(
                p4.Checksum(
                    item["name"],
                    self.read.field(item["target"]),
                    item["calculation"],
                    bool(item.get("update", True)),
                    bool(item.get("verify", True)),
                    self.read.expr(condition) if condition is not None else None,
                )
            )
        self.program.checksums = tuple(checksums)

    def _lists(self) -> None:
        for item in self.root.get("learn_lists", []):
            fields = tuple(self.read.sized(element) for element in item["elements"])
            self.program.learn_lists[item["id"]] = p4.LearnList(item["id"], item["name"], fields)
        for item in self.root.get("field_lists", []):
            refs = [self.read.expr(element) for element in item["elements"]]
            self.program.field_lists[item["id"]] = tuple(ref for ref in refs if isinstance(ref, p4.FieldRef))

    # -- behaviour ----------------------------------------------------------------------------------------------------

    def _actions(self) -> None:
        for item in self.root["actions"]:
            self.program.actions[item["id"]] = p4.Action(
                item["id"],
                item["name"],
                tuple((param["name"], param["bitwidth"]) for param in item["runtime_data"]),
                tuple(self.read.primitive(call) for call in item["primitives"]),
            )

    def _parser(self) -> None:
        parsers = self.root.get("parsers", [])
        if len(parsers) != 1:
            raise PipelineError(f"{len(parsers)} parsers: a v1model program has one")
        self.program.parser_start = parsers[0]["init_state"]
        for item in parsers[0]["parse_states"]:
            with naming(f"parser state {item['name']}{where(item)}"):
                key = tuple(self.read.sized(element) for element in item["transition_key"])
                transitions = tuple(self._transition(case) for case in item["transitions"])
                ops = tuple(self.read.parser_op(op) for op in item["parser_ops"])
            self.program.states[item["name"]] = p4.ParserState(item["name"], ops, key, transitions, where(item))

    @staticmethod
    def _transition(case: Json) -> p4.Transition:
        kind = case.get("type") or ("default" if case["value"] == "default" else "hexstr")
        mask = hexstr(case["mask"]) if case.get("mask") is not None else None
        if kind == "default":
            return p4.Transition(case["next_state"])
        if kind == "parse_vset":
            return p4.Transition(case["next_state"], mask=mask, value_set=case["value"])
        if kind == "hexstr":
            return p4.Transition(case["next_state"], hexstr(case["value"]), mask)
        raise PipelineError(f"parser transition type {kind} is not supported")

    def _deparser(self) -> None:
        deparsers = self.root.get("deparsers", [])
        if len(deparsers) != 1:
            raise PipelineError(f"{len(deparsers)} deparsers: a v1model program has one")
        self.program.deparser = tuple(deparsers[0]["order"])
        calls = [self.read.primitive(call) for call in deparsers[0].get("primitives", [])]
        self.program.deparser_calls = tuple(calls)

    def _pipeline(self, item: Json) -> None:
        nodes: dict[str, p4.Node] = {}
        for profile in item.get("action_profiles", []):
            selector = profile.get("selector")
            inputs = tuple(self.read.expr(source) for source in selector["input"]) if selector else ()
            self.program.profiles[profile["name"]] = p4.ActionProfile(
                profile["name"],
                profile["max_size"],
                selector["algo"] if selector else None,
                inputs,
                where(profile),
            )
        for table in item["tables"]:
            nodes[table["name"]] = self._table(table)
        for branch in item.get("conditionals", []):
            with naming(f"condition {branch['name']}{where(branch)}"):
                cond = self.read.expr(branch["expression"])
            nodes[branch["name"]] = p4.Conditional(
                branch["name"], cond, branch["true_next"], branch["false_next"], where(branch)
            )
        for call in item.get("action_calls", []):
            nodes[call["name"]] = p4.ActionCallNode(call["name"], call["action_id"], call["next_node"])
        self.program.pipelines[item["name"]] = p4.Pipeline(item["name"], item["init_table"], nodes)

    def _table(self, item: Json) -> p4.Table:
        key = tuple(self._table_key(element, item) for element in item["key"])
        if item["type"] not in {"simple", "indirect", "indirect_ws"}:
            raise PipelineError(f"table {item['name']}{where(item)}: type {item['type']} is not supported")
        ids = self._action_ids(item)
        next_nodes: dict[int | str, str | None] = {}
        for name, node in item["next_tables"].items():
            if name in {"__HIT__", "__MISS__"}:
                next_nodes["hit" if name == "__HIT__" else "miss"] = node
            else:
                next_nodes.update({i: node for i in ids if self.program.actions[i].name == name})
        default = item.get("default_entry") or {}
        entries = item.get("entries")
        return p4.Table(
            name=item["name"],
            key=key,
            match_type=item["match_type"],
            size=item["max_size"],
            action_ids=ids,
            next=next_nodes,
            base_default_next=item.get("base_default_next"),
            with_counters=bool(item.get("with_counters")),
            support_timeout=bool(item.get("support_timeout")),
            direct_meter=item.get("direct_meters"),
            profile=item.get("action_profile"),
            selector=item["type"] == "indirect_ws",
            default_action=default.get("action_id"),
            default_data=tuple(hexstr(value) for value in default.get("action_data", [])),
            const_default_action=bool(default.get("action_const")),
            const_default_entry=bool(default.get("action_entry_const")),
            entries=None if entries is None else tuple(self._entry(entry) for entry in entries),
            where=where(item),
        )

    def _action_ids(self, item: Json) -> tuple[int, ...]:
        if "action_ids" in item:
            return tuple(item["action_ids"])
        by_name = {action.name: action.id for action in self.program.actions.values()}
        return tuple(by_name[name] for name in item["actions"])

    def _table_key(self, element: Json, table: Json) -> p4.TableKey:
        kind = element["match_type"]
        if kind not in {"exact", "lpm", "ternary", "range", "optional", "valid"}:
            raise PipelineError(f"table {table['name']}{where(table)}: match kind {kind} is not supported")
        target = p4.FieldRef(element["target"], "$valid$") if kind == "valid" else self.read.field(element["target"])
        width, signed = 1, False
        if target.name != "$valid$":
            field = self.program.field(target)
            width, signed = field.width, field.signed
        mask = element.get("mask")
        name = element.get("name") or f"{target.header}.{target.name}"
        return p4.TableKey(name, kind, width, target, signed, hexstr(mask) if mask else None)

    @staticmethod
    def _entry(entry: Json) -> p4.ConstEntry:
        match: list[int | tuple[int, int] | None] = []
        for key in entry["match_key"]:
            kind = key["match_type"]
            if kind == "lpm":
                match.append((hexstr(key["key"]), key["prefix_length"]))
            elif kind == "ternary":
                match.append((hexstr(key["key"]), hexstr(key["mask"])))
            elif kind == "range":
                match.append((hexstr(key["start"]), hexstr(key["end"])))
            elif kind == "valid":
                match.append(int(key["key"]))
            else:
                match.append(hexstr(key["key"]))
        action = entry["action_entry"]
        data = tuple(hexstr(value) for value in action["action_data"])
        return p4.ConstEntry(tuple(match), action["action_id"], data, entry.get("priority", 0))
