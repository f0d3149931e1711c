"""Reads the ingress and egress pipelines of BMv2 JSON: tables, conditions, action calls and action profiles."""

from __future__ import annotations

from mrclab.softswitch.objects import hashing
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.bmv2expr import ExpressionReader
from mrclab.softswitch.p4.jsonvalue import JsonValue, naming

MAX_NODES = 1 << 13
MAX_PRIORITY = (1 << 31) - 1

_KEY_KINDS = frozenset({"exact", "lpm", "ternary", "range", "optional", "valid"})


class PipelineReader:
    """Adds pipelines to a program that has its headers, actions and resources; `actions`: their numbers by id."""

    def __init__(self, program: p4.Program, read: ExpressionReader, actions: dict[int, int]) -> None:
        self.program = program
        self._read = read
        self._actions = actions

    def pipeline(self, item: JsonValue) -> None:
        """Add a pipeline."""
        nodes: dict[str, p4.Node] = {}
        name = item.new_name(self.program.pipelines, "pipeline")
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
            node.new_name(taken, "table or condition")
            taken.add(node["name"].text)
        for table in tables:
            nodes[table["name"].text] = self._table(table, names)
        for branch in branches:
            with naming(f"condition {branch['name'].text}{branch.where}"):
                condition = self._read.number(branch["expression"])
            yes, no = (branch[side].one_of(names) for side in ("true_next", "false_next"))
            nodes[branch["name"].text] = p4.Conditional(branch["name"].text, condition, yes, no)
        for call in calls:
            action, following = self._action(call["action_id"]), call["next_node"].one_of(names)
            if self.program.actions[action].params:
                raise PipelineError(f"call {call['name'].text}: its action has parameters")
            nodes[call["name"].text] = p4.ActionCallNode(call["name"].text, action, following)
        self.program.pipelines[name] = p4.Pipeline(name, item["init_table"].one_of(names), nodes)

    def _action(self, value: JsonValue) -> int:
        """Return the position of the action with an id."""
        number = self._actions.get(value.whole())
        if number is None:
            raise value.refused("the id of an action")
        return number

    def _profile(self, item: JsonValue) -> None:
        name, selector = item.new_name(self.program.profiles, "action profile"), item.get("selector")
        inputs: tuple[p4.Expr, ...] = ()
        algorithm = None
        if selector is not None:
            inputs = tuple(self._read.plain(source)[0] for source in selector["input"].elements())
            algorithm = selector["algo"].text
            if algorithm not in hashing.ALGORITHMS:
                raise PipelineError(f"action profile {name}{item.where}: hash algorithm {algorithm} is not supported")
        self.program.profiles[name] = p4.ActionProfile(name, item["max_size"].whole(), algorithm, inputs)

    def _table(self, item: JsonValue, names: set[str]) -> p4.Table:
        name, kind, program = item["name"].text, item["type"].text, self.program
        key = tuple(self._table_key(element, item) for element in item["key"].elements())
        if kind not in {"simple", "indirect", "indirect_ws"}:
            raise PipelineError(f"table {name}{item.where}: type {kind} is not supported")
        ids = self._action_ids(item)
        actions = tuple(program.actions[number] for number in ids)
        following: dict[int | str, str | None] = {}
        for word, node in item["next_tables"].members():
            to = node.one_of(names)
            if word in {"__HIT__", "__MISS__"}:
                following["hit" if word == "__HIT__" else "miss"] = to
            else:
                following.update({called.id: to for called in actions if called.name == word})
        default = item.get("default_entry")
        action = None if default is None else self._action(default["action_id"])
        if action is not None and action not in ids:
            raise PipelineError(f"table {name}{item.where}: its default action is not one of its actions")
        return p4.Table(
            name=name,
            key=key,
            size=item["max_size"].whole(),
            actions=actions,
            next=following,
            base_default_next=item.optional("base_default_next", lambda node: node.one_of(names)),
            with_counters=item.is_set("with_counters"),
            support_timeout=item.is_set("support_timeout"),
            direct_meter=self._direct_meter(item),
            profile=self._profile_of(item, kind),
            selector=kind == "indirect_ws",
            default_action=action,
            default_data=() if action is None or default is None else self._arguments(default, action),
            const_default_action=default is not None and default.is_set("action_const"),
            const_default_entry=default is not None and default.is_set("action_entry_const"),
            entries=item.optional(
                "entries", lambda found: tuple(self._entry(entry, key, ids) for entry in found.elements())
            ),
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
                raise PipelineError(f"table {item['name'].text}{item.where}: it lacks its action profile")
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
            return tuple(self._action(element) for element in found.elements(most=MAX_NODES))
        by_name = {action.name: action.id for action in self.program.actions.values()}
        numbers = []
        for element in item["actions"].elements(most=MAX_NODES):
            if element.text not in by_name:
                raise element.refused("the name of an action")
            numbers.append(by_name[element.text])
        return tuple(numbers)

    def _table_key(self, element: JsonValue, table: JsonValue) -> p4.TableKey:
        kind, given = element["match_type"].text, element["target"]
        if kind not in _KEY_KINDS:
            raise PipelineError(f"table {table['name'].text}{table.where}: match kind {kind} is not supported")
        if kind == "valid":
            header = given.text
            if header not in self.program.headers:
                raise given.refused("the name of a header")
            target = p4.FieldRef(header, "$valid$")
        else:
            target = self._read.field(given)
        width = 1
        if target.name != "$valid$":
            field = self.program.field(target)
            width = field.width
            if field.varbit:
                raise given.refused("a field that is a number")
        name = element.optional("name", lambda found: found.text) or f"{target.header}.{target.name}"
        kind = "exact" if kind == "valid" else kind
        return p4.TableKey(name, width, kind, target, element.optional("mask", lambda mask: mask.hexstr))

    def _entry(self, entry: JsonValue, key: tuple[p4.TableKey, ...], ids: tuple[int, ...]) -> p4.ConstEntry:
        fields = entry["match_key"].elements(len(key), len(key))
        match = tuple(self._match(field, one) for field, one in zip(fields, key, strict=True))
        called = entry["action_entry"]
        action = self._action(called["action_id"])
        if action not in ids:
            raise called["action_id"].refused("the id of one of the table's actions")
        rank = entry.optional("priority", lambda number: number.whole(MAX_PRIORITY)) or 0
        return p4.ConstEntry(match, action, self._arguments(called, action), rank)

    @staticmethod
    def _match(item: JsonValue, key: p4.TableKey) -> int | tuple[int, int] | None:
        kind, top = item["match_type"].text, (1 << key.width) - 1
        if kind != key.kind and (kind, key.target.name) != ("valid", "$valid$"):
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
