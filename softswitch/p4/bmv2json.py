"""Reads BMv2 JSON (format 2.x, docs/JSON_format.md of behavioral-model) into a `Program`.

Anything that is not known here is refused with its name and P4 source line. The file is not trusted: each value is
checked for its type and bounds (`jsonvalue`), each name and operand against the program (`bmv2expr`, `kinds`).
"""

from __future__ import annotations

from collections.abc import Iterable

from mrclab.softswitch.objects import hashing
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.bmv2expr import MAX_FIELD_BITS, ExpressionReader, naming, where
from mrclab.softswitch.p4.jsonvalue import JsonValue, parse

MAX_CELLS = 1 << 24
"""Most cells of all counter, meter and register arrays together."""
MAX_HEADER_BITS = 1 << 18
MAX_HEADERS = 1 << 12
MAX_STACK = 1 << 8
"""Most elements of a stack."""
MAX_NODES = 1 << 13
MAX_PRIORITY = (1 << 31) - 1

_KEY_KINDS = frozenset({"exact", "lpm", "ternary", "range", "optional", "valid"})


def load(text: str | bytes) -> p4.Program:
    """Return the program in `text`. Raises PipelineError naming what is wrong or not supported."""
    root = parse(text)
    if not isinstance(root.value, dict) or "header_types" not in root.value:
        raise PipelineError("device configuration is not BMv2 JSON: it has no header_types; give p4c's .json output")
    about = root.get("__meta__")
    version = None if about is None else about.get("version")
    numbers = [2, 0] if version is None else [part.whole() for part in version.elements(2, 2)]
    if numbers[0] != 2:
        raise PipelineError(f"BMv2 JSON version {numbers[0]}.{numbers[1]} is not supported: 2.x is")
    return _Loader(root).program


def _unique(item: JsonValue, known: Iterable[str], what: str) -> str:
    """Return an object's name, which no other of its kind has."""
    name = item["name"].text
    if name in known:
        raise PipelineError(f"{what} {name}{where(item)}: the name is taken")
    return name


def _new_id(item: JsonValue, known: Iterable[int], what: str) -> int:
    """Return an object's id, which no other of its kind has."""
    number = item["id"].whole()
    if number in known:
        raise PipelineError(f"{what} {item['name'].text}{where(item)}: the id {number} is taken")
    return number


def _flag(item: JsonValue, name: str, default: bool = False) -> bool:
    found = item.get(name)
    return default if found is None else found.flag


def _size(item: JsonValue, name: str, most: int = (1 << 31) - 1) -> int:
    found = item.get(name)
    return 0 if found is None else found.whole(most)


class _Loader:
    """One pass over the JSON, in the order of dependence."""

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self.program = p4.Program()
        self.read = ExpressionReader(self.program)
        self._cells = 0
        for instance in root.all("extern_instances"):
            raise PipelineError(
                f"extern {instance['type'].text} {instance['name'].text}{where(instance)}: not supported"
            )
        self._headers()
        self._stacks_and_unions()
        self._aliases()
        for pair in root.all("errors"):
            name, number = pair.elements(2, 2)
            self.program.errors[name.text] = number.whole()
        self._resources()
        self._calculations()
        self._lists()
        self._actions()
        self._parser()
        self._deparser()
        for pipeline in root.all("pipelines"):
            self._pipeline(pipeline)
        if len(self.program.pipelines) != 2:
            raise PipelineError("BMv2 JSON has no ingress and egress pipeline: only v1model programs are supported")

    # -- data ---------------------------------------------------------------------------------------------------------

    def _headers(self) -> None:
        types: dict[str, p4.HeaderType] = {}
        for item in self.root["header_types"].elements(most=MAX_HEADERS):
            types[_unique(item, types, "header type")] = self._header_type(item)
        self.header_names: dict[int, str] = {}
        for item in self.root["headers"].elements(most=MAX_HEADERS):
            name = _unique(item, self.program.headers, "header")
            kind = types.get(item["header_type"].text)
            if kind is None:
                raise PipelineError(f"header {name}: the program has no header type {item['header_type'].text}")
            header = p4.Header(name, kind, item["metadata"].flag)
            if header.metadata and kind.varbit is not None:
                raise PipelineError(f"header {name}: metadata with a varbit is not supported")
            if not header.metadata and kind.bits % 8:
                raise PipelineError(f"header {name}: {kind.bits} bits are no whole number of bytes")
            if name == "$":
                raise PipelineError("header $: the name is reserved")
            self.header_names[_new_id(item, self.header_names, "header")] = name
            self.program.headers[name] = header

    def _header_type(self, item: JsonValue) -> p4.HeaderType:
        fields: dict[str, p4.Field] = {}
        offset, name = 0, item["name"].text
        for described in item["fields"].elements():
            parts = described.elements(2, 4)
            field, varbit = parts[0].text, parts[1].value == "*"
            bits = 0 if varbit else parts[1].whole(MAX_FIELD_BITS)
            signed, saturating = (len(parts) > number and parts[number].flag for number in (2, 3))
            if field in fields or field == "$valid$":
                raise PipelineError(f"header type {name}: the field name {field} is taken")
            if varbit and any(known.varbit for known in fields.values()):
                raise PipelineError(f"header type {name}: only one field of a header can be a varbit")
            if not varbit and not bits and signed:
                raise PipelineError(f"header type {name}: {field} is a signed field of no bits")
            fields[field] = p4.Field(field, bits, signed, saturating, offset, varbit)
            offset += bits
        if offset > MAX_HEADER_BITS:
            raise PipelineError(f"header type {name}: {offset} bits; the most is {MAX_HEADER_BITS}")
        p4_14 = item.get("length_exp") is not None
        return p4.HeaderType(name, tuple(fields.values()), offset, _size(item, "max_length", 1 << 16), p4_14)

    def _named(self, ids: JsonValue, known: dict[int, str], what: str) -> tuple[str, ...]:
        """Return the names of the headers or unions with these ids, each used once."""
        numbers = [element.whole() for element in ids.elements(1, MAX_STACK)]
        if any(number not in known for number in numbers) or len(set(numbers)) != len(numbers):
            raise ids.refused(f"a list of ids of {what}")
        return tuple(known[number] for number in numbers)

    def _type_of(self, header: str) -> p4.HeaderType:
        found = self.program.headers[header]
        if found.metadata:
            raise PipelineError(f"header {header} is metadata: it can be in no stack and no union")
        return found.type

    def _stacks_and_unions(self) -> None:
        program = self.program
        for item in self.root.all("header_stacks"):
            elements = self._named(item["header_ids"], self.header_names, "headers")
            if len({self._type_of(element).fields for element in elements}) != 1:
                raise PipelineError(f"stack {item['name'].text}: its elements have different types")
            program.stacks[_unique(item, program.stacks, "stack")] = p4.Stack(item["name"].text, elements)
        union_types: dict[str, list[str]] = {}
        for item in self.root.all("header_union_types"):
            members = [pair.elements(2, 2)[0].text for pair in item["headers"].elements()]
            union_types[_unique(item, union_types, "header union type")] = members
        union_names: dict[int, str] = {}
        for item in self.root.all("header_unions"):
            union_names[_new_id(item, union_names, "header union")] = self._union(item, union_types)
        for item in self.root.all("header_union_stacks"):
            elements = self._named(item["header_union_ids"], union_names, "header unions")
            shapes = {
                tuple((name, self._type_of(header).fields) for name, header in program.unions[element].members.items())
                for element in elements
            }
            if len(shapes) != 1:
                raise PipelineError(f"stack {item['name'].text}: its elements have different types")
            program.stacks[_unique(item, program.stacks, "stack")] = p4.Stack(item["name"].text, elements, union=True)

    def _union(self, item: JsonValue, types: dict[str, list[str]]) -> str:
        program = self.program
        name, kind = _unique(item, program.unions, "header union"), item["union_type"].text
        instances = self._named(item["header_ids"], self.header_names, "headers")
        if kind not in types or len(set(types[kind])) != len(instances):
            raise PipelineError(f"header union {name}: its {len(instances)} headers are not those of type {kind}")
        program.unions[name] = p4.Union(name, dict(zip(types[kind], instances, strict=True)))
        for instance in instances:
            header = program.headers[instance]
            if header.union is not None:
                raise PipelineError(f"header {instance} is in two header unions")
            program.headers[instance] = p4.Header(header.name, self._type_of(instance), header.metadata, name)
        return name

    def _aliases(self) -> None:
        for pair in self.root.all("field_aliases"):
            source, target = pair.elements(2, 2)
            instance, _, field = source.text.rpartition(".")
            header, name = (part.text for part in target.elements(2, 2))
            known = self.program.headers.get(header)
            if known is not None and known.type.has(name) and not known.type.field(name).varbit:
                self.program.aliases[instance, field] = p4.FieldRef(header, name)

    def _array(self, item: JsonValue, known: Iterable[str], what: str) -> tuple[str, int]:
        """Return name and size of an array, and count its cells."""
        name, size = _unique(item, known, what), _size(item, "size")
        self._cells += size
        if self._cells > MAX_CELLS:
            raise PipelineError(
                f"{what} {name}{where(item)}: {self._cells} cells with those before; the most is {MAX_CELLS}"
            )
        self.program.add_text(f"{what} {name}")
        return name, size

    def _resources(self) -> None:
        program = self.program
        for item in self.root.all("meter_arrays"):
            name, size = self._array(item, program.meters, "meter")
            direct, target, rates = _flag(item, "is_direct"), item.get("result_target"), item["rate_count"].whole()
            if rates != 2:
                raise PipelineError(f"meter {name}{where(item)}: {rates} rates; only 2 supported")
            program.meters[name] = p4.Meter(
                name, size, item["type"].text == "packets", rates, direct, self._binding(item),
                self._number_field(target) if direct and target is not None else None,
            )  # fmt: skip
        for item in self.root.all("counter_arrays"):
            name, size = self._array(item, program.counters, "counter")
            program.counters[name] = p4.Counter(name, size, _flag(item, "is_direct"), self._binding(item))
        for item in self.root.all("register_arrays"):
            name, size = self._array(item, program.registers, "register")
            width = item["bitwidth"].whole(MAX_FIELD_BITS, 1)
            program.registers[name] = p4.Register(name, size, width, _flag(item, "signed"))
        for item in self.root.all("parse_vsets"):
            name = _unique(item, program.value_sets, "parser value set")
            program.value_sets[name] = item["compressed_bitwidth"].whole(MAX_HEADER_BITS)

    @staticmethod
    def _binding(item: JsonValue) -> str | None:
        found = item.get("binding")
        return None if found is None else found.text

    def _number_field(self, item: JsonValue) -> p4.FieldRef:
        """Return a field that holds a number."""
        ref = self.read.field(item)
        if ref.name == "$valid$" or self.program.field(ref).varbit:
            raise item.refused("a field that is a number")
        return ref

    def _calculations(self) -> None:
        for item in self.root.all("calculations"):
            name, inputs, payload = _unique(item, self.program.calculations, "calculation"), [], False
            for source in item["input"].elements():
                if source["type"].text == "payload":
                    payload = True
                else:
                    inputs.append(self.read.sized(source))
            self.program.calculations[name] = p4.Calculation(name, item["algo"].text, tuple(inputs), payload)
        self.program.checksums = tuple(self._checksum(item) for item in self.root.all("checksums"))

    def _checksum(self, item: JsonValue) -> p4.Checksum:
        name, condition = item["name"].text, item.get("if_cond")
        if item["type"].text != "generic":
            raise PipelineError(f"checksum {name}{where(item)}: type {item['type'].text} is not supported")
        if item["calculation"].text not in self.program.calculations:
            raise PipelineError(f"checksum {name}: the program has no calculation {item['calculation'].text}")
        return p4.Checksum(
            name,
            self._number_field(item["target"]),
            item["calculation"].text,
            _flag(item, "update", default=True),
            _flag(item, "verify", default=True),
            self.read.number(condition) if condition is not None else None,
        )

    def _lists(self) -> None:
        program, read = self.program, self.read
        for number, item in enumerate(self.root.all("learn_lists"), 1):
            read.digest_numbers[_new_id(item, read.digest_numbers, "digest")] = number
            fields = tuple(self._plain(element) for element in item["elements"].elements())
            program.learn_lists[number] = p4.LearnList(number, item["name"].text, fields)
        for number, item in enumerate(self.root.all("field_lists"), 1):
            read.list_numbers[_new_id(item, read.list_numbers, "field list")] = number
            refs = [self._plain(element)[0] for element in item["elements"].elements()]
            program.field_lists[number] = tuple(ref for ref in refs if isinstance(ref, p4.FieldRef))

    def _plain(self, item: JsonValue) -> tuple[p4.Expr, int]:
        """Return an element of a digest or field list: a number with its width."""
        expr, width = self.read.sized(item)
        if isinstance(expr, p4.HeaderRef) or (isinstance(expr, p4.FieldRef) and self._is_varbit(expr)):
            raise item.refused("a field that is a number")
        return expr, width

    def _is_varbit(self, ref: p4.FieldRef) -> bool:
        return ref.name != "$valid$" and self.program.field(ref).varbit

    # -- behaviour ----------------------------------------------------------------------------------------------------

    def _actions(self) -> None:
        self.action_numbers: dict[int, int] = {}
        for number, item in enumerate(self.root["actions"].elements(most=MAX_NODES)):
            self.action_numbers[_new_id(item, self.action_numbers, "action")] = number
            params = [
                (param["name"].text, param["bitwidth"].whole(MAX_FIELD_BITS))
                for param in item["runtime_data"].elements()
            ]
            calls = item["primitives"].elements()
            body = tuple(self.read.primitive(call, len(params)) for call in calls)
            self.program.actions[number] = p4.Action(number, item["name"].text, tuple(params), body)

    def _action_number(self, value: JsonValue) -> int:
        """Return the position of the action with an id."""
        number = self.action_numbers.get(value.whole())
        if number is None:
            raise value.refused("the id of an action")
        return number

    def _parser(self) -> None:
        parsers = list(self.root.all("parsers"))
        if len(parsers) != 1:
            raise PipelineError(f"{len(parsers)} parsers: a v1model program has one")
        states = parsers[0]["parse_states"].elements(most=MAX_NODES)
        names = {item["name"].text for item in states}
        self.program.parser_start = self._one_of(names, parsers[0]["init_state"])
        for item in states:
            name = _unique(item, self.program.states, "parser state")
            with naming(f"parser state {name}{where(item)}"):
                key = tuple(self._select_key(element) for element in item["transition_key"].elements())
                transitions = tuple(self._transition(case, names) for case in item["transitions"].elements())
                ops = tuple(self.read.parser_op(op) for op in item["parser_ops"].elements())
            self.program.states[name] = p4.ParserState(name, ops, key, transitions, where(item))

    def _select_key(self, item: JsonValue) -> tuple[p4.Expr, int]:
        expr, width = self.read.sized(item, ahead=True)
        if isinstance(expr, p4.HeaderRef) or (isinstance(expr, p4.FieldRef) and self._is_varbit(expr)):
            raise item.refused("a number")
        return expr, width

    @staticmethod
    def _one_of(names: Iterable[str], value: JsonValue) -> str | None:
        """Return the name of what comes next, None for the end."""
        name = value.text_or_none
        if name is not None and name not in names:
            raise value.refused("the name of a parser state, table, condition or null")
        return name

    def _transition(self, case: JsonValue, names: set[str]) -> p4.Transition:
        named, value, mask = case.get("type"), case["value"], case.get("mask")
        following = self._one_of(names, case["next_state"])
        kind = named.text if named is not None else ("default" if value.value == "default" else "hexstr")
        number = None if mask is None else mask.hexstr
        if kind == "default":
            return p4.Transition(following)
        if kind == "parse_vset":
            if value.text not in self.program.value_sets:
                raise PipelineError(f"parser value set {value.text}: the program has no such set")
            return p4.Transition(following, mask=number, value_set=value.text)
        if kind == "hexstr":
            return p4.Transition(following, value.hexstr, number)
        raise PipelineError(f"parser transition type {kind} is not supported")

    def _deparser(self) -> None:
        deparsers = list(self.root.all("deparsers"))
        if len(deparsers) != 1:
            raise PipelineError(f"{len(deparsers)} deparsers: a v1model program has one")
        order = [name.text for name in deparsers[0]["order"].elements(most=MAX_HEADERS)]
        for name in order:
            if name not in self.program.headers or self.program.headers[name].metadata:
                raise PipelineError(f"deparser: the program has no header {name} to send")
        self.program.deparser = tuple(order)
        self.program.deparser_calls = tuple(self.read.primitive(call) for call in deparsers[0].all("primitives"))

    def _pipeline(self, item: JsonValue) -> None:
        nodes: dict[str, p4.Node] = {}
        name = _unique(item, self.program.pipelines, "pipeline")
        if name not in {"ingress", "egress"}:
            raise PipelineError(f"pipeline {name}: only ingress and egress are supported")
        taken = {node for pipeline in self.program.pipelines.values() for node in pipeline.nodes}
        for profile in item.all("action_profiles"):
            self._profile(profile)
        tables, branches, calls = (list(item.all(kind)) for kind in ("tables", "conditionals", "action_calls"))
        every = [*tables, *branches, *calls]
        if len(every) > MAX_NODES:
            raise PipelineError(f"pipeline {name}: {len(every)} tables and conditions; the most is {MAX_NODES}")
        names = {node["name"].text for node in every}
        for node in every:
            _unique(node, taken, "table or condition")
            taken.add(node["name"].text)
        for table in tables:
            nodes[table["name"].text] = self._table(table, names)
        for branch in branches:
            with naming(f"condition {branch['name'].text}{where(branch)}"):
                condition = self.read.number(branch["expression"])
            yes, no = (self._one_of(names, branch[side]) for side in ("true_next", "false_next"))
            nodes[branch["name"].text] = p4.Conditional(branch["name"].text, condition, yes, no, where(branch))
        for call in calls:
            action, following = self._action_number(call["action_id"]), self._one_of(names, call["next_node"])
            if self.program.actions[action].params:
                raise PipelineError(f"call {call['name'].text}: its action has parameters")
            nodes[call["name"].text] = p4.ActionCallNode(call["name"].text, action, following)
        self.program.pipelines[name] = p4.Pipeline(name, self._one_of(names, item["init_table"]), nodes)

    def _profile(self, item: JsonValue) -> None:
        name, selector = _unique(item, self.program.profiles, "action profile"), item.get("selector")
        inputs: tuple[p4.Expr, ...] = ()
        algorithm = None
        if selector is not None:
            inputs = tuple(self._plain(source)[0] for source in selector["input"].elements())
            algorithm = selector["algo"].text
            if algorithm not in hashing.ALGORITHMS:
                raise PipelineError(f"action profile {name}{where(item)}: hash algorithm {algorithm} is not supported")
        self.program.profiles[name] = p4.ActionProfile(name, item["max_size"].whole(), algorithm, inputs, where(item))

    def _table(self, item: JsonValue, names: set[str]) -> p4.Table:
        name, kind, program = item["name"].text, item["type"].text, self.program
        key = tuple(self._table_key(element, item) for element in item["key"].elements())
        if kind not in {"simple", "indirect", "indirect_ws"}:
            raise PipelineError(f"table {name}{where(item)}: type {kind} is not supported")
        ids = self._action_ids(item)
        following: dict[int | str, str | None] = {}
        for word, node in item["next_tables"].members():
            to = self._one_of(names, node)
            if word in {"__HIT__", "__MISS__"}:
                following["hit" if word == "__HIT__" else "miss"] = to
            else:
                following.update({number: to for number in ids if program.actions[number].name == word})
        default, entries, base = item.get("default_entry"), item.get("entries"), item.get("base_default_next")
        action = None if default is None else self._action_number(default["action_id"])
        if action is not None and action not in ids:
            raise PipelineError(f"table {name}{where(item)}: its default action is none of its actions")
        return p4.Table(
            name=name,
            key=key,
            match_type=item["match_type"].text,
            size=item["max_size"].whole(),
            action_ids=ids,
            next=following,
            base_default_next=None if base is None else self._one_of(names, base),
            with_counters=_flag(item, "with_counters"),
            support_timeout=_flag(item, "support_timeout"),
            direct_meter=self._direct_meter(item),
            profile=self._profile_of(item, kind),
            selector=kind == "indirect_ws",
            default_action=action,
            default_data=() if action is None or default is None else self._arguments(default, action),
            const_default_action=default is not None and _flag(default, "action_const"),
            const_default_entry=default is not None and _flag(default, "action_entry_const"),
            entries=None if entries is None else tuple(self._entry(entry, key, ids) for entry in entries.elements()),
            where=where(item),
        )

    def _direct_meter(self, item: JsonValue) -> str | None:
        found = item.get("direct_meters")
        if found is None:
            return None
        if found.text not in self.program.meters or not self.program.meters[found.text].direct:
            raise found.refused("the name of a direct meter")
        return found.text

    def _profile_of(self, item: JsonValue, kind: str) -> str | None:
        found = item.get("action_profile")
        if found is None:
            if kind != "simple":
                raise PipelineError(f"table {item['name'].text}{where(item)}: it lacks its action profile")
            return None
        profile = self.program.profiles.get(found.text)
        if profile is None or (kind == "indirect_ws" and profile.algorithm is None):
            raise found.refused("the name of an action profile that the table can use")
        return found.text

    def _arguments(self, item: JsonValue, action: int) -> tuple[int, ...]:
        """Return the arguments of an entry's action."""
        params, values = self.program.actions[action].params, list(item.all("action_data"))
        if len(values) != len(params):
            raise PipelineError(f"{item.path}: {len(values)} arguments, the action takes {len(params)}")
        for (_, width), value in zip(params, values, strict=True):
            if not 0 <= value.hexstr < 1 << width:
                raise value.refused(f"a value of {width} bits")
        return tuple(value.hexstr for value in values)

    def _action_ids(self, item: JsonValue) -> tuple[int, ...]:
        found = item.get("action_ids")
        if found is not None:
            return tuple(self._action_number(element) for element in found.elements(most=MAX_NODES))
        by_name = {action.name: action.id for action in self.program.actions.values()}
        numbers = []
        for element in item["actions"].elements(most=MAX_NODES):
            if element.text not in by_name:
                raise element.refused("the name of an action")
            numbers.append(by_name[element.text])
        return tuple(numbers)

    def _table_key(self, element: JsonValue, table: JsonValue) -> p4.TableKey:
        kind, given, named = element["match_type"].text, element["target"], element.get("name")
        if kind not in _KEY_KINDS:
            raise PipelineError(f"table {table['name'].text}{where(table)}: match kind {kind} is not supported")
        if kind == "valid":
            header = given.text
            if header not in self.program.headers:
                raise given.refused("the name of a header")
            target = p4.FieldRef(header, "$valid$")
        else:
            target = self.read.field(given)
        width, signed = 1, False
        if target.name != "$valid$":
            field = self.program.field(target)
            width, signed = field.width, field.signed
            if field.varbit:
                raise given.refused("a field that is a number")
        mask = element.get("mask")
        name = f"{target.header}.{target.name}" if named is None else named.text
        return p4.TableKey(name, kind, width, target, signed, None if mask is None else mask.hexstr)

    def _entry(self, entry: JsonValue, key: tuple[p4.TableKey, ...], ids: tuple[int, ...]) -> p4.ConstEntry:
        fields = entry["match_key"].elements(len(key), len(key))
        match = tuple(self._match(field, one) for field, one in zip(fields, key, strict=True))
        called = entry["action_entry"]
        action = self._action_number(called["action_id"])
        if action not in ids:
            raise called["action_id"].refused("the id of one of the table's actions")
        priority = entry.get("priority")
        rank = 0 if priority is None else priority.whole(MAX_PRIORITY)
        return p4.ConstEntry(match, action, self._arguments(called, action), rank)

    @staticmethod
    def _match(item: JsonValue, key: p4.TableKey) -> int | tuple[int, int] | None:
        kind, top = item["match_type"].text, (1 << key.width) - 1
        if kind != key.kind:
            raise item["match_type"].refused(key.kind)

        def number(name: str) -> int:
            found = item[name].hexstr
            if not 0 <= found <= top:
                raise item[name].refused(f"a value of {key.width} bits")
            return found

        if kind == "lpm":
            return number("key"), item["prefix_length"].whole(key.width)
        if kind == "ternary":
            return number("key"), number("mask")
        if kind == "range":
            return number("start"), number("end")
        if kind == "valid":
            return int(item["key"].flag if isinstance(item["key"].value, bool) else item["key"].whole(1))
        return number("key")
