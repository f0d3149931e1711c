"""Code for the primitives of actions (behavioral-model: targets/simple_switch/primitives.cpp, core/primitives.cpp)."""

from __future__ import annotations

from collections.abc import Callable

from mrclab.softswitch.compiler.analysis.state import DIRTY, Known
from mrclab.softswitch.compiler.block import IntExpr, constant, wrap
from mrclab.softswitch.compiler.expressions.calculations import Calculations
from mrclab.softswitch.compiler.expressions.operators import arithmetic, comparison, unary
from mrclab.softswitch.compiler.flow import Body, BranchScope
from mrclab.softswitch.compiler.packets.headers import HeaderOps
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.layout import UNCUT

CLONE_FLAG = 1 << 15
"""Bit set in the clone flag besides the session, so that session 0 is possible (MIRROR_SESSION_ID_VALID_MASK)."""

_ARITHMETIC = {
    "add": "+",
    "subtract": "-",
    "bit_xor": "^",
    "bit_or": "|",
    "bit_and": "&",
    "shift_left": "<<",
    "shift_right": ">>",
}


_JUMPS = {"_jump": 0, "_jump_if_zero": 1}
"""Jumps, and the argument that is the target."""


class Primitives:
    """Emits all primitives of action bodies at `at`."""

    def __init__(self, at: BranchScope, headers: HeaderOps, calculations: Calculations, drop_port: int) -> None:
        self.at, self.headers, self.calculations = at, headers, calculations
        self.program = at.program
        self.drop_port = drop_port

    def body(self, calls: tuple[p4.Primitive, ...], params: tuple[IntExpr, ...] = ()) -> None:
        """Emit an action body."""
        outer, self.at.params = self.at.params, params
        if any(_number(target) <= index for index, target in _jumps(calls)):
            self._run_loops(calls)
        else:
            self._run(calls, 0, len(calls))
        self.at.params = outer

    def _run(self, calls: tuple[p4.Primitive, ...], start: int, end: int) -> None:
        """Emit calls[start:end], turning forward jumps back into branches."""
        index = start
        while index < end and not self.at.state.dead:
            call = calls[index]
            if call.op == "_jump":
                index = self._target(call.args[0], end)
            elif call.op == "_jump_if_zero":
                index = self._jump_if_zero(calls, index, end)
            else:
                self.primitive(call)
                index += 1

    @staticmethod
    def _target(arg: p4.Expr, end: int) -> int:
        return min(_number(arg), end)

    def _run_loops(self, calls: tuple[p4.Primitive, ...]) -> None:
        """Emit an action with backward jumps: a loop over its straight parts."""
        end = len(calls)
        starts = {0}
        for index, target in _jumps(calls):
            starts |= {index + 1, self._target(target, end)}
        order = sorted(start for start in starts if start < end)
        numbers = {start: number for number, start in enumerate(order)}

        def goto(at: int) -> None:
            if at < end:
                self.at.go(numbers[at])
            else:
                self.at.leave()

        def part(start: int, stop: int) -> Body:
            def body() -> None:
                last = calls[stop - 1]
                jumps = last.op in _JUMPS
                self._run(calls, start, stop - jumps)
                if last.op == "_jump":
                    goto(self._target(last.args[0], end))
                elif last.op == "_jump_if_zero":
                    other = self._target(last.args[1], end)
                    self.at.branch(self._truth(last.args[0]), lambda: goto(stop), lambda: goto(other))
                else:
                    goto(stop)

            return body

        self.at.dispatch([part(start, stop) for start, stop in zip(order, [*order[1:], end], strict=True)], 0)

    def _truth(self, node: p4.Expr) -> IntExpr:
        cond = self.at.expr(node)
        return unary("d2b", cond)

    def _jump_if_zero(self, calls: tuple[p4.Primitive, ...], index: int, end: int) -> int:
        call = calls[index]
        other = self._target(call.args[1], end)
        after = other
        last = calls[other - 1]
        if last.op == "_jump" and other - 1 > index:
            after = self._target(last.args[0], end)
        then_end = other - 1 if after != other or last.op == "_jump" else other
        self.at.branch(
            self._truth(call.args[0]),
            lambda: self._run(calls, index + 1, then_end),
            lambda: self._run(calls, other, after),
        )
        return after

    def primitive(self, call: p4.Primitive) -> None:
        """Emit one primitive call."""
        handler: Callable[[p4.Primitive], None] | None = getattr(self, f"_do_{call.op}", None)
        try:
            if handler is not None:
                handler(call)
            else:
                left, right = self.at.expr(call.args[1]), self.at.expr(call.args[2])
                self.store(call.args[0], arithmetic(_ARITHMETIC[call.op], left, right))
        except PipelineError as error:
            if call.where and call.where not in str(error):
                raise PipelineError(f"{error}, in {call.op}{call.where}") from error
            raise

    # -- assignments --------------------------------------------------------------------------------------------------

    def store(self, target: p4.Expr, value: IntExpr) -> None:
        """Emit an assignment to an l-value: a field, a field of the last or of a computed element, a register cell."""
        if isinstance(target, p4.FieldRef):
            self.at.write(target, value)
        elif isinstance(target, p4.StackField):
            self._store_element(*self.at.last_element(target), value)
        elif isinstance(target, p4.Operation) and target.op == "access_field" and target.left is not None:
            index, headers = self.at.element(target.left)
            name = self.program.headers[headers[0]].type.fields[target.number].name
            self._store_element(index, [p4.FieldRef(header, name) for header in headers], value)
        else:
            assert isinstance(target, p4.RegisterRef)
            register = self.program.registers[target.array]
            index = self.at.expr(target.index)
            self.at.line(
                f"{self.at.register(target.array)}[{index.code}] = {value.operand} & {(1 << register.width) - 1:#x}"
            )

    def _store_element(self, index: IntExpr, refs: list[p4.FieldRef], value: IntExpr) -> None:
        value = self.at.hoisted(value) if index.value is None else value
        self.headers.for_element(index, refs, lambda ref: self.at.write(ref, value))

    def _do_assign(self, call: p4.Primitive) -> None:
        target = call.args[0]
        if (
            isinstance(target, p4.FieldRef)
            and target.name != "$valid$"
            and not self.at.live(target.header, target.name)
        ):
            return
        self.store(target, self.at.expr(call.args[1]))

    _do_modify_field = _do_assign

    def _do_add_to_field(self, call: p4.Primitive) -> None:
        self.store(call.args[0], arithmetic("+", self.at.expr(call.args[0]), self.at.expr(call.args[1])))

    def _do_subtract_from_field(self, call: p4.Primitive) -> None:
        self.store(call.args[0], arithmetic("-", self.at.expr(call.args[0]), self.at.expr(call.args[1])))

    def _do_assign_VL(self, call: p4.Primitive) -> None:  # noqa: N802 - the JSON's name
        target, source = call.args
        assert isinstance(target, p4.FieldRef)
        assert isinstance(source, p4.FieldRef)
        self._load_after_varbit(target.header)
        code = self.at.read_varbit(source)
        self.at.line(f"{self.at.names.field(target.header, target.name)} = {code}")
        info = self.at.state.edit(target.header)
        info.fields[target.name] = DIRTY
        info.length = None
        self.at.line(f"{self.at.names.length(target.header)} = len({self.at.names.field(target.header, target.name)})")

    def _load_after_varbit(self, header: str) -> None:
        """Read the fields behind the varbit from the packet before its length changes, which determines their place."""
        kind = self.program.headers[header].type
        assert kind.varbit is not None
        for field in kind.fields:
            if not field.varbit and field.offset >= kind.varbit.offset:
                value = self.at.read(p4.FieldRef(header, field.name)).value
                self.at.state.edit(header).fields[field.name] = DIRTY if value is None else Known(value)

    def _do_assign_header(self, call: p4.Primitive) -> None:
        target_index, targets = self.at.element(call.args[0])
        source_index, sources = self.at.element(call.args[1])
        self.headers.for_element(
            target_index,
            targets,
            lambda target: self.headers.for_element(
                source_index, sources, lambda source: self.headers.assign_header(target, source)
            ),
        )

    _do_copy_header = _do_assign_header

    def _do_assign_union(self, call: p4.Primitive) -> None:
        target, source = (list(self.program.unions[_name(arg)].members.values()) for arg in call.args)
        self.headers.assign_members(target, source)

    def _do_assign_header_stack(self, call: p4.Primitive) -> None:
        target, source = map(_name, call.args)
        self.headers.assign_stack(target, source)

    _do_assign_union_stack = _do_assign_header_stack

    def _do_push(self, call: p4.Primitive) -> None:
        self.headers.shift(_name(call.args[0]), _number(call.args[1]))

    def _do_pop(self, call: p4.Primitive) -> None:
        self.headers.shift(_name(call.args[0]), -_number(call.args[1]))

    def _do_add_header(self, call: p4.Primitive) -> None:
        index, headers = self.at.element(call.args[0])
        self.headers.for_element(index, headers, self.headers.set_valid)

    _do_add_header_fast = _do_add_header

    def _do_remove_header(self, call: p4.Primitive) -> None:
        index, headers = self.at.element(call.args[0])
        self.headers.for_element(index, headers, self.headers.set_invalid)

    # -- drop, clone, recirculate, digest ------------------------------------------------------------------------------

    def _do_mark_to_drop(self, call: p4.Primitive) -> None:
        header = call.args[0].name if call.args and isinstance(call.args[0], p4.HeaderRef) else "standard_metadata"
        names = {f.name for f in self.program.headers[header].type.fields}
        if "egress_spec" not in names:
            raise PipelineError(f"mark_to_drop: {header} has no field egress_spec")
        self.at.write(p4.FieldRef(header, "egress_spec"), constant(self.drop_port))
        if "mcast_grp" in names:
            self.at.write(p4.FieldRef(header, "mcast_grp"), constant(0))

    def _do_drop(self, _call: p4.Primitive) -> None:
        for header, name, value in (
            ("standard_metadata", "egress_spec", self.drop_port),
            ("intrinsic_metadata", "mcast_grp", 0),
        ):
            ref = self.program.standard(header, name)
            if ref is not None:
                self.at.write(ref, constant(value))

    def _do_truncate(self, call: p4.Primitive) -> None:
        length, now = self.at.expr(call.args[0]), self.at.flag("truncate")
        if now.value == UNCUT:
            self.at.set_flag("truncate", length)
        else:
            self.at.set_flag("truncate", IntExpr(f"min({length.code}, {now.code})", 0, UNCUT))

    def _do_clone_ingress_pkt_to_egress(self, call: p4.Primitive) -> None:
        session = self.at.expr(call.args[0])
        self.at.set_flag("clone", arithmetic("|", session, constant(CLONE_FLAG)))
        self.at.set_flag("clone_list", constant(_number(call.args[1])))

    _do_clone_egress_pkt_to_egress = _do_clone_ingress_pkt_to_egress

    def _do_resubmit(self, call: p4.Primitive) -> None:
        self.at.set_flag("resubmit", constant(_number(call.args[0])))

    def _do_recirculate(self, call: p4.Primitive) -> None:
        self.at.set_flag("recirculate", constant(_number(call.args[0])))

    def _do_generate_digest(self, call: p4.Primitive) -> None:
        self.at.set_flag("digest", constant(_number(call.args[1])))

    def _do_exit(self, _call: p4.Primitive) -> None:
        self.at.set_flag("exit", constant(1))

    def _do_no_op(self, _call: p4.Primitive) -> None:
        pass

    # -- externs ------------------------------------------------------------------------------------------------------

    def _bounds(self, index: IntExpr, size: int, what: str, body: Callable[[], None]) -> None:
        """Emit `body` under a bounds check; out of range a line is logged and nothing else happens, as in BMv2."""
        if index.low >= 0 and index.high < size:
            body()
            return

        def log_out_of_range() -> None:
            self.at.line(f"out_of_range(text_{self.program.texts[what]}, {index.code})")

        self.at.branch(comparison("<", index, constant(size)), body, log_out_of_range)

    def _do_count(self, call: p4.Primitive) -> None:
        name, index = _name(call.args[0]), self.at.hoisted(self.at.expr(call.args[1]))
        counter = self.program.counters[name]
        number = list(self.program.counters).index(name)

        def count() -> None:
            self.at.line(f"packets_{number}[{index.code}] += 1")
            self.at.line(f"bytes_{number}[{index.code}] += length")

        self._bounds(index, counter.size, f"counter {name}", count)

    def _do_execute_meter(self, call: p4.Primitive) -> None:
        name, index = _name(call.args[0]), self.at.hoisted(self.at.expr(call.args[1]))
        number = list(self.program.meters).index(name)
        colour = IntExpr(f"meter_{number}({index.code}, length)", 0, 2)
        size = self.program.meters[name].size
        self._bounds(index, size, f"meter {name}", lambda: self.store(call.args[2], colour))

    def _do_register_read(self, call: p4.Primitive) -> None:
        name, index = _name(call.args[1]), self.at.hoisted(self.at.expr(call.args[2]))
        register = self.program.registers[name]
        code = f"{self.at.register(name)}[{index.code}]"
        high = (1 << register.width) - 1
        low = -(1 << register.width) if register.signed else 0
        self._bounds(
            index, register.size, f"register {name}", lambda: self.store(call.args[0], IntExpr(code, low, high, True))
        )

    def _do_register_write(self, call: p4.Primitive) -> None:
        name, index = _name(call.args[0]), self.at.hoisted(self.at.expr(call.args[1]))
        register, value = self.program.registers[name], self.at.expr(call.args[2])
        cell = f"{self.at.register(name)}[{index.code}]"
        value = wrap(value, register.width, register.signed)
        self._bounds(index, register.size, f"register {name}", lambda: self.at.line(f"{cell} = {value.code}"))

    def _do_modify_field_rng_uniform(self, call: p4.Primitive) -> None:
        low, high = self.at.hoisted(self.at.expr(call.args[1])), self.at.hoisted(self.at.expr(call.args[2]))
        target = call.args[0]
        code = f"{low.code} + int(random() * ({high.operand} - {low.operand} + 1))"
        if low.value == 0:
            code = f"int(random() * ({high.operand} + 1))"
        if max(low.high, high.high) >= 1 << 50:
            code = f"randint({low.code}, {high.code})"
        ordered = comparison("<=", low, high) if low.value != 0 else constant(1)
        self.at.branch(ordered, lambda: self.store(target, IntExpr(code, low.low, high.high)))

    def _do_modify_field_with_hash_based_offset(self, call: p4.Primitive) -> None:
        base = self.at.expr(call.args[1])
        size = self.at.expr(call.args[3])
        value = self.calculations.calculation(_name(call.args[2]))
        if size.value is not None:
            divisor, high = str(max(size.value, 1)), max(size.value, 1) - 1
        else:
            divisor, high = f"({size.code} or 1)", max(size.high, 1) - 1
        rest = value if value.high <= high and size.value else IntExpr(f"{value.operand} % {divisor}", 0, high)
        self.store(call.args[0], arithmetic("+", rest, base))

    def _text(self, call: p4.Primitive) -> str:
        """Return the global that holds a call's message."""
        assert call.message is not None
        return f"text_{self.program.texts[call.message]}"

    def _do_log_msg(self, call: p4.Primitive) -> None:
        items = call.args[1].items if len(call.args) > 1 and isinstance(call.args[1], p4.Vector) else ()
        values = ", ".join(self.at.expr(item).code for item in items)
        self.at.line(f"log_msg({self._text(call)}, [{values}])")

    def _do_assert(self, call: p4.Primitive) -> None:
        cond = self.at.expr(call.args[0])
        if cond.value is None:
            self.at.line(f"if not {cond.operand}: raise AssertionError({self._text(call)})")
        elif not cond.value:
            self.at.line(f"raise AssertionError({self._text(call)})")

    _do_assume = _do_assert


def _name(arg: p4.Expr) -> str:
    """Return the name of an argument that is a header union, a stack or an object of the program."""
    assert isinstance(arg, p4.UnionRef | p4.StackRef | p4.Named)
    return arg.name


def _number(arg: p4.Expr) -> int:
    assert isinstance(arg, p4.Const)
    return arg.value


def _jumps(calls: tuple[p4.Primitive, ...]) -> list[tuple[int, p4.Expr]]:
    """Return the position and the target of each jump of an action."""
    return [(index, call.args[_JUMPS[call.op]]) for index, call in enumerate(calls) if call.op in _JUMPS]
