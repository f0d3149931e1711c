"""Code for pipelines: tables, conditions and the order they run in (behavioral-model: match_tables.cpp, pipeline.cpp).

A table at run time is a lookup function in the generated module's globals: `find_N(key)` returns the entry or None,
`default_N[0]` is the default entry. An entry is the tuple (action id, cell, *arguments); the cell is a list
[packets, bytes, time of last hit, meter] where the table has direct resources or ages. With an action profile it is
(resolve, cell): `resolve(hash)` gives the entry of the member chosen.
"""

from __future__ import annotations

from collections.abc import Callable

from mrclab.softswitch.compiler.analysis import liveness
from mrclab.softswitch.compiler.analysis.graph import Joins
from mrclab.softswitch.compiler.block import Block, IntExpr, bits, constant
from mrclab.softswitch.compiler.expressions.calculations import Calculations
from mrclab.softswitch.compiler.expressions.operators import arithmetic
from mrclab.softswitch.compiler.flow import Body, BranchScope, End
from mrclab.softswitch.compiler.primitives import Primitives
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4

NODE_LIMIT = 12
"""Most copies of a pipeline's node, on average (unstructured graphs repeat nodes)."""
NODE_BUDGET = 60
"""Nodes that may be emitted beyond that."""
MAX_ENDS = 16
"""Ends of a pipeline with their own code behind them; more are merged."""


class ControlEmitter:
    """Emits pipelines of tables and conditions at `at`.

    Paths that differ at the end of a pipeline (one rewrites the destination, another drops the packet) are kept
    separate: each then runs only the code that it needs.

    `joins`: by pipeline, None for one with a loop.
    """

    def __init__(
        self, at: BranchScope, primitives: Primitives, calculations: Calculations, joins: dict[str, Joins | None]
    ) -> None:
        self.at, self.primitives, self.calculations = at, primitives, calculations
        self.program = at.program
        self.joins = joins
        self._numbers: dict[str, int] | None = None
        """Numbers of the nodes, within a loop over them."""

    def pipeline(self, name: str, at_end: Body) -> None:
        """Emit a pipeline; `at_end` emits the code behind it, once for each path that ends there."""
        pipeline = self.program.pipelines[name]
        self._nodes, joins = pipeline.nodes, self.joins[name]
        self._joins = joins or {}
        self._budget = NODE_BUDGET + NODE_LIMIT * len(pipeline.nodes)
        self._may_exit = liveness.uses(self.program, "exit")
        self.at.exited = []
        outer = self.at.block
        ends = self._loop(pipeline.first) if joins is None else self._walk(pipeline.first, None)
        if len(ends) > MAX_ENDS:
            ends = [(outer, self.at.merge(ends))]
        for block, state in ends:
            self.at.block, self.at.state = block, state
            at_end()
        for block, state in self.at.exited:
            self.at.block, self.at.state = block, state
            self.at.set_flag("exit", constant(0))
            at_end()
            self.at.block.line("return")
        self.at.state.dead = True

    # -- ways through the graph ---------------------------------------------------------------------------------------

    def _walk(self, name: str | None, stop: str | None) -> list[End]:
        """Emit nodes from `name` up to, not including, `stop`; return the ends."""
        if self._numbers is not None:
            self._go_to(name)
            return []
        while name != stop and name is not None:
            if self.at.state.dead:
                return []
            self._budget -= 1
            if self._budget < 0:
                raise PipelineError(f"control flow around {name} is too entangled to be compiled")
            node, join = self._nodes[name], self._joins[name]
            if isinstance(node, p4.ActionCallNode):
                self._action(node.action_id, ())
                name = node.next_node
                continue
            outer = self.at.block
            ends = self._conditional(node, join) if isinstance(node, p4.Conditional) else self._table(node, join)
            if join == stop:
                return ends
            self.at.block, self.at.state, name = outer, self.at.merge(ends), join
        return self.at.here()

    def _loop(self, first: str | None) -> list[End]:
        """Emit a pipeline with a cycle: a loop over all nodes."""
        if first is None:
            return self.at.here()
        self._numbers = {name: number for number, name in enumerate(self._nodes)}

        def part(node: p4.Node) -> Body:
            def body() -> None:
                if isinstance(node, p4.ActionCallNode):
                    self._action(node.action_id, ())
                    self._go_to(node.next_node)
                elif isinstance(node, p4.Conditional):
                    self._conditional(node, None)
                else:
                    self._table(node, None)

            return body

        self.at.dispatch([part(node) for node in self._nodes.values()], self._numbers[first])
        self._numbers = None
        return self.at.here()

    def _go_to(self, name: str | None) -> None:
        """Continue with a node, within a loop over all."""
        assert self._numbers is not None
        if self.at.state.dead:
            return
        if name is None:
            self.at.leave()
        else:
            self.at.go(self._numbers[name])

    def _conditional(self, node: p4.Conditional, join: str | None) -> list[End]:
        cond = self.at.expr(node.condition)

        def side(truth: bool) -> Callable[[], list[End]]:
            def body() -> list[End]:
                self.at.learn(node.condition, truth)
                return self._walk(node.true_next if truth else node.false_next, join)

            return body

        if cond.value is not None:
            return side(bool(cond.value))()
        return self.at.fork([(cond.code, side(True)), (None, side(False))])

    def _action(self, number: int, params: tuple[IntExpr, ...]) -> None:
        self.primitives.body(self.program.actions[number].primitives, params)
        if self._may_exit and not self.at.state.dead:
            self.at.branch(self.at.flag("exit"), self._exit)

    def _exit(self) -> None:
        self.at.exited.append((self.at.block.add(Block()), self.at.state.copy()))
        self.at.state.dead = True

    # -- tables -------------------------------------------------------------------------------------------------------

    def _table(self, table: p4.Table, join: str | None) -> list[End]:
        if not table.key and table.const_default_entry and table.default_action is not None and not table.profile:
            params = [constant(value) for value in table.default_data]
            self._action(table.default_action, tuple(params))
            return self._walk(self._next(table, table.default_action, hit=False), join)
        number = list(self.program.tables).index(table.name)
        if "hit" in table.next or "miss" in table.next:
            return self._hit_or_miss(table, number, join)
        entry = self._lookup(table, number)
        return self.at.fork(self._dispatch(table, entry, lambda action: self._next(table, action, hit=True), join))

    def _hit_or_miss(self, table: p4.Table, number: int, join: str | None) -> list[End]:
        """Emit the lookup and its two sides; on a miss only the default action can run."""
        entry = self.at.temporary()

        def hit() -> list[End]:
            self._found(table, entry)
            return self.at.fork(self._dispatch(table, entry, lambda _: table.next.get("hit"), join))

        def miss() -> list[End]:
            node = table.next.get("miss")
            if table.const_default_entry and table.default_action is not None:
                self._action(table.default_action, tuple(constant(value) for value in table.default_data))
                return self._walk(node, join)
            self.at.line(f"{entry} = default_{number}[0]")
            return self.at.fork(self._dispatch(table, entry, lambda _: node, join))

        if not table.key:
            return miss()
        self.at.line(f"{entry} = find_{number}({self._key_code(table)})")
        return self.at.fork([(f"{entry} is not None", hit), (None, miss)])

    def _lookup(self, table: p4.Table, number: int) -> str:
        """Emit the lookup, falling back to the default entry; return the name of the entry."""
        entry = self.at.temporary()
        if not table.key:
            self.at.line(f"{entry} = default_{number}[0]")
            return entry
        key = self._key_code(table)
        if not self._has_cell(table) and table.profile is None:
            self.at.line(f"{entry} = find_{number}({key}) or default_{number}[0]")
            return entry
        self.at.line(f"{entry} = find_{number}({key})")
        self.at.chain([
            (f"{entry} is None", lambda: self.at.line(f"{entry} = default_{number}[0]")),
            (None, lambda: self._found(table, entry)),
        ])  # fmt: skip
        return entry

    @staticmethod
    def _has_cell(table: p4.Table) -> bool:
        return table.with_counters or table.support_timeout or table.direct_meter is not None

    def _found(self, table: p4.Table, entry: str) -> None:
        """Emit the steps of a hit before the action runs."""
        if self._has_cell(table):
            self._touch(table, entry)
        if table.profile is not None:
            self.at.line(f"{entry} = {entry}[0]({self._selector(table)})")

    def _key_code(self, table: p4.Table) -> str:
        codes = []
        for key in table.key:
            expr = self.at.read(key.target)
            if expr.low < 0:
                expr = arithmetic("&", expr, constant((1 << key.width) - 1))
            if key.mask is not None:
                expr = arithmetic("&", expr, constant(key.mask))
            codes.append(expr.code)
        return codes[0] if len(codes) == 1 else f"({', '.join(codes)})"

    def _touch(self, table: p4.Table, entry: str) -> None:
        """Emit the effects of a hit on the entry's cell: counter, time of last hit, meter."""
        cell = self.at.temporary()
        self.at.line(f"{cell} = {entry}[1]")
        if table.with_counters:
            self.at.line(f"{cell}[0] += 1")
            self.at.line(f"{cell}[1] += length")
        if table.support_timeout:
            self.at.line(f"{cell}[2] = monotonic()")
        if table.direct_meter is not None:
            meter = self.program.meters[table.direct_meter]
            if meter.target is not None:
                self.at.write(meter.target, IntExpr(f"{cell}[3](length)", 0, 2))

    def _selector(self, table: p4.Table) -> str:
        """Return the code of the hash that selects a group's member, as a function of the packet."""
        assert table.profile is not None
        profile = self.program.profiles[table.profile]
        if profile.algorithm is None or not table.selector:
            return "0"
        sized = tuple((e, self.program.field(e).width if isinstance(e, p4.FieldRef) else 0) for e in profile.inputs)
        data = self.calculations.gather(sized, payload=False)
        number = list(self.program.profiles).index(table.profile)
        return f"select_{number}({data})"

    def _dispatch(
        self, table: p4.Table, entry: str, follow: Callable[[int], str | None], join: str | None
    ) -> list[tuple[str | None, Callable[[], list[End]]]]:
        """Return the arms for the actions of an entry; `follow` returns the node after each."""
        numbers = tuple(dict.fromkeys(action.id for action in table.actions))
        if not table.key and table.const_default_entry and table.default_action is not None:
            numbers = (table.default_action,)
        none = follow(-1) if table.default_action is None or not numbers else None
        empty = [n for n in numbers if not self.program.actions[n].primitives]
        groups: dict[str | None, list[int]] = {}
        for number in empty:
            groups.setdefault(follow(number), []).append(number)
        others = [n for n in numbers if n not in empty]
        action = self.at.temporary()
        arms = [(f"{action} == {n}", self._arm(n, entry, follow(n), join)) for n in others]
        if table.default_action is None:
            groups.setdefault(none, []).append(-1)
        for node, members in groups.items():
            code = f"{action} == {members[0]}" if len(members) == 1 else f"{action} in {tuple(members)}"
            arms.append((code, self._continue(node, join)))
        result: list[tuple[str | None, Callable[[], list[End]]]] = [*arms[:-1], (None, arms[-1][1])]
        if len(result) > 1:
            self.at.line(f"{action} = {entry}[0]")
        return result

    def _continue(self, node: str | None, join: str | None) -> Callable[[], list[End]]:
        return lambda: self._walk(node, join)

    def _arm(self, number: int, entry: str, node: str | None, join: str | None) -> Callable[[], list[End]]:
        def arm() -> list[End]:
            action = self.program.actions[number]
            names = [self.at.temporary() for _ in action.params]
            used = _used_params(action)
            if len(used) == 1:
                (only,) = used
                self.at.line(f"{names[only]} = {entry}[{2 + only}]")
            elif used:
                targets = ", ".join(name if i in used else "_" for i, name in enumerate(names))
                self.at.line(f"_, _, {targets} = {entry}")
            params = [bits(name, width, atom=True) for name, (_, width) in zip(names, action.params, strict=True)]
            self._action(number, tuple(params))
            return self._walk(node, join)

        return arm

    @staticmethod
    def _next(table: p4.Table, action: int, hit: bool) -> str | None:
        """Return the node after this action; a hit or miss node has precedence."""
        side = "hit" if hit else "miss"
        if "hit" in table.next or "miss" in table.next:
            return table.next.get(side)
        return table.next.get(action, table.base_default_next)


def _used_params(action: p4.Action) -> set[int]:
    used: set[int] = set()

    def walk(node: object) -> None:
        if isinstance(node, p4.Param):
            used.add(node.index)
        for part in p4.parts_of(node):
            walk(part)

    for call in action.primitives:
        for arg in call.args:
            walk(arg)
    return used
