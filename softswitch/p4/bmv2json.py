"""Reads BMv2 JSON (format 2.x, docs/JSON_format.md of behavioral-model) into a `Program`.

Anything that is not known here is refused with its name and P4 source line. The file is not trusted: each value is
checked for its type and bounds (`jsonvalue`), each name and operand against the program (`bmv2expr`, `kinds`).
"""

from __future__ import annotations

from collections.abc import Container

from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.bmv2expr import MAX_FIELD_BITS, ExpressionReader
from mrclab.softswitch.p4.bmv2pipeline import MAX_NODES, PipelineReader
from mrclab.softswitch.p4.jsonvalue import JsonValue, naming, parse

MAX_CELLS = 1 << 24
"""Most cells of all counter, meter and register arrays together."""
MAX_HEADER_BITS = 1 << 18
MAX_HEADERS = 1 << 12
MAX_STACK = 1 << 8
"""Most elements of a stack."""


def load(text: str | bytes) -> p4.Program:
    """Return the program in `text`. Raises PipelineError with the invalid or unsupported construct."""
    root = parse(text)
    if not isinstance(root.value, dict) or "header_types" not in root.value:
        raise PipelineError("device configuration is not BMv2 JSON: it has no header_types; give p4c's .json output")
    version = root.optional("__meta__", lambda about: about.get("version"))
    numbers = [2, 0] if version is None else [part.whole() for part in version.elements(2, 2)]
    if numbers[0] != 2:
        raise PipelineError(f"BMv2 JSON version {numbers[0]}.{numbers[1]} is not supported: 2.x is")
    return _Loader(root).program


class _Loader:
    """One pass over the JSON: each part after those that it names."""

    def __init__(self, root: JsonValue) -> None:
        self.root = root
        self.program = p4.Program()
        self.read = ExpressionReader(self.program)
        self._cells = 0
        for instance in root.all("extern_instances"):
            raise PipelineError(
                f"extern {instance['type'].text} {instance['name'].text}{instance.where}: not supported"
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
        reader = PipelineReader(self.program, self.read, self.action_numbers)
        for pipeline in root.all("pipelines"):
            reader.pipeline(pipeline)
        if len(self.program.pipelines) != 2:
            raise PipelineError("BMv2 JSON has no ingress and egress pipeline: only v1model programs are supported")

    # -- data ---------------------------------------------------------------------------------------------------------

    def _headers(self) -> None:
        types: dict[str, p4.HeaderType] = {}
        for item in self.root["header_types"].elements(most=MAX_HEADERS):
            types[item.new_name(types, "header type")] = self._header_type(item)
        self._header_names: dict[int, str] = {}
        for item in self.root["headers"].elements(most=MAX_HEADERS):
            name = item.new_name(self.program.headers, "header")
            kind = types.get(item["header_type"].text)
            if kind is None:
                raise PipelineError(f"header {name}: the program has no header type {item['header_type'].text}")
            header = p4.Header(name, kind, item["metadata"].flag)
            if header.metadata and kind.varbit is not None:
                raise PipelineError(f"header {name}: metadata with a varbit is not supported")
            if not header.metadata and kind.bits % 8:
                raise PipelineError(f"header {name}: {kind.bits} bits are not a whole number of bytes")
            if name == "$":
                raise PipelineError("header $: the name is reserved")
            self._header_names[item.new_id(self._header_names, "header")] = name
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
        longest = item.optional("max_length", lambda number: number.whole(1 << 16)) or 0
        return p4.HeaderType(name, tuple(fields.values()), offset, longest, item.get("length_exp") is not None)

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
            elements = self._named(item["header_ids"], self._header_names, "headers")
            if len({self._type_of(element).fields for element in elements}) != 1:
                raise PipelineError(f"stack {item['name'].text}: its elements have different types")
            program.stacks[item.new_name(program.stacks, "stack")] = p4.Stack(item["name"].text, elements)
        union_types: dict[str, list[str]] = {}
        for item in self.root.all("header_union_types"):
            members = [pair.elements(2, 2)[0].text for pair in item["headers"].elements()]
            union_types[item.new_name(union_types, "header union type")] = members
        union_names: dict[int, str] = {}
        for item in self.root.all("header_unions"):
            union_names[item.new_id(union_names, "header union")] = self._union(item, union_types)
        for item in self.root.all("header_union_stacks"):
            elements = self._named(item["header_union_ids"], union_names, "header unions")
            shapes = {
                tuple((name, self._type_of(header).fields) for name, header in program.unions[element].members.items())
                for element in elements
            }
            if len(shapes) != 1:
                raise PipelineError(f"stack {item['name'].text}: its elements have different types")
            program.stacks[item.new_name(program.stacks, "stack")] = p4.Stack(item["name"].text, elements, union=True)

    def _union(self, item: JsonValue, types: dict[str, list[str]]) -> str:
        program = self.program
        name, kind = item.new_name(program.unions, "header union"), item["union_type"].text
        instances = self._named(item["header_ids"], self._header_names, "headers")
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

    def _array(self, item: JsonValue, known: Container[str], what: str) -> tuple[str, int]:
        """Return name and size of an array, and count its cells."""
        name, size = item.new_name(known, what), item.optional("size", JsonValue.whole) or 0
        self._cells += size
        if self._cells > MAX_CELLS:
            raise PipelineError(
                f"{what} {name}{item.where}: {self._cells} cells with those before; the most is {MAX_CELLS}"
            )
        self.program.add_text(f"{what} {name}")
        return name, size

    def _resources(self) -> None:
        program = self.program
        for item in self.root.all("meter_arrays"):
            name, size = self._array(item, program.meters, "meter")
            direct, rates = item.is_set("is_direct"), item["rate_count"].whole()
            if rates != 2:
                raise PipelineError(f"meter {name}{item.where}: {rates} rates; only 2 supported")
            colour = item.optional("result_target", self._number_field) if direct else None
            program.meters[name] = p4.Meter(name, size, item["type"].text == "packets", direct, colour)
        for item in self.root.all("counter_arrays"):
            name, size = self._array(item, program.counters, "counter")
            program.counters[name] = p4.Counter(name, size, item.is_set("is_direct"))
        for item in self.root.all("register_arrays"):
            name, size = self._array(item, program.registers, "register")
            width = item["bitwidth"].whole(MAX_FIELD_BITS, 1)
            program.registers[name] = p4.Register(name, size, width, item.is_set("signed"))
        for item in self.root.all("parse_vsets"):
            name = item.new_name(program.value_sets, "parser value set")
            program.value_sets[name] = item["compressed_bitwidth"].whole(MAX_HEADER_BITS)

    def _number_field(self, item: JsonValue) -> p4.FieldRef:
        """Return a field that holds a number."""
        ref = self.read.field(item)
        if ref.name == "$valid$" or self.program.field(ref).varbit:
            raise item.refused("a field that is a number")
        return ref

    def _calculations(self) -> None:
        for item in self.root.all("calculations"):
            name, inputs, payload = item.new_name(self.program.calculations, "calculation"), [], False
            for source in item["input"].elements():
                if source["type"].text == "payload":
                    payload = True
                else:
                    inputs.append(self.read.sized(source))
            self.program.calculations[name] = p4.Calculation(name, item["algo"].text, tuple(inputs), payload)
        self.program.checksums = tuple(self._checksum(item) for item in self.root.all("checksums"))

    def _checksum(self, item: JsonValue) -> p4.Checksum:
        name = item["name"].text
        if item["type"].text != "generic":
            raise PipelineError(f"checksum {name}{item.where}: type {item['type'].text} is not supported")
        if item["calculation"].text not in self.program.calculations:
            raise PipelineError(f"checksum {name}: the program has no calculation {item['calculation'].text}")
        return p4.Checksum(
            name,
            self._number_field(item["target"]),
            item["calculation"].text,
            item.is_set("update", default=True),
            item.is_set("verify", default=True),
            item.optional("if_cond", self.read.number),
        )

    def _lists(self) -> None:
        program, read = self.program, self.read
        for number, item in enumerate(self.root.all("learn_lists"), 1):
            read.digest_numbers[item.new_id(read.digest_numbers, "digest")] = number
            fields = tuple(self.read.plain(element) for element in item["elements"].elements())
            program.learn_lists[number] = p4.LearnList(number, item["name"].text, fields)
        for number, item in enumerate(self.root.all("field_lists"), 1):
            read.list_numbers[item.new_id(read.list_numbers, "field list")] = number
            refs = [self.read.plain(element)[0] for element in item["elements"].elements()]
            program.field_lists[number] = tuple(ref for ref in refs if isinstance(ref, p4.FieldRef))

    # -- behaviour ----------------------------------------------------------------------------------------------------

    def _actions(self) -> None:
        self.action_numbers: dict[int, int] = {}
        for number, item in enumerate(self.root["actions"].elements(most=MAX_NODES)):
            self.action_numbers[item.new_id(self.action_numbers, "action")] = number
            params = [
                (param["name"].text, param["bitwidth"].whole(MAX_FIELD_BITS))
                for param in item["runtime_data"].elements()
            ]
            calls = item["primitives"].elements()
            body = tuple(self.read.primitive(call, len(params)) for call in calls)
            self.program.actions[number] = p4.Action(number, item["name"].text, tuple(params), body)

    def _parser(self) -> None:
        parsers = list(self.root.all("parsers"))
        if len(parsers) != 1:
            raise PipelineError(f"{len(parsers)} parsers: a v1model program has one")
        states = parsers[0]["parse_states"].elements(most=MAX_NODES)
        names = {item["name"].text for item in states}
        self.program.parser_start = parsers[0]["init_state"].one_of(names)
        for item in states:
            name = item.new_name(self.program.states, "parser state")
            with naming(f"parser state {name}{item.where}"):
                key = tuple(self.read.plain(element, ahead=True) for element in item["transition_key"].elements())
                transitions = tuple(self._transition(case, names) for case in item["transitions"].elements())
                ops = tuple(self.read.parser_op(op) for op in item["parser_ops"].elements())
            self.program.states[name] = p4.ParserState(name, ops, key, transitions, item.where)

    def _transition(self, case: JsonValue, names: set[str]) -> p4.Transition:
        value, number = case["value"], case.optional("mask", lambda mask: mask.hexstr)
        following = case["next_state"].one_of(names)
        kind = case.optional("type", lambda named: named.text)
        kind = kind or ("default" if value.value == "default" else "hexstr")
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
