"""Code for the parser (behavioral-model: parser.cpp)."""

from __future__ import annotations

from collections.abc import Callable

from mrclab.softswitch.compiler.analysis.state import HeaderState
from mrclab.softswitch.compiler.block import IntExpr, constant
from mrclab.softswitch.compiler.expressions.expr import padded
from mrclab.softswitch.compiler.expressions.operators import arithmetic, comparison, unary
from mrclab.softswitch.compiler.flow import Body, BranchScope
from mrclab.softswitch.compiler.packets.headers import HeaderOps
from mrclab.softswitch.compiler.primitives import Primitives
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.jsonvalue import naming

CORE_ERRORS = (
    "NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
    "ParserInvalidArgument",
)  # fmt: skip
TREE_LIMIT = 48
"""Parser states emitted as a tree (shared ones once per path); with more, or loops, there is a loop over states."""


class ParserEmitter:
    """Emits the parser where `at` is.

    `on_accept` emits the code behind each accepting leaf of a parser tree; None: all ends of the parser merge.
    """

    def __init__(self, at: BranchScope, headers: HeaderOps, primitives: Primitives) -> None:
        self.at, self.headers, self.primitives = at, headers, primitives
        self.program = at.program
        self.on_accept: Body | None = None

    def emit(self) -> None:
        """Emit the whole parser; afterwards the flag `parser_error` holds the error code."""
        start = self.program.parser_start
        self.at.set_flag("parser_error", constant(self.error("NoError")))
        if start is None:
            return
        if self.is_tree:
            self.at.once(lambda: self._enter(start))
        else:
            self._states_in_loop(start)

    @property
    def is_tree(self) -> bool:
        """True if the parser is emitted as a tree, so that each of its leaves knows its path."""
        start = self.program.parser_start
        return start is not None and self._tree_size(start, ()) <= TREE_LIMIT

    def leaves(self, name: str | None) -> int:
        """Return the number of accepting leaves below a state."""
        if name is None:
            return 1
        return sum(self.leaves(transition.next_state) for transition in self.program.states[name].transitions)

    def error(self, name: str) -> int:
        """Return the number of a core error; BMv2 numbers those that the program lacks itself."""
        if name in self.program.errors:
            return self.program.errors[name]
        free = max(self.program.errors.values(), default=-1) + 1
        missing = [error for error in CORE_ERRORS if error not in self.program.errors]
        return free + missing.index(name)

    def _tree_size(self, name: str, above: tuple[str, ...]) -> int:
        if name in above:
            return TREE_LIMIT + 1
        total = 1
        for transition in self.program.states[name].transitions:
            if transition.next_state is not None and total <= TREE_LIMIT:
                total += self._tree_size(transition.next_state, (*above, name))
        return total

    def _fail(self, error: str) -> Body:
        def fail() -> None:
            self.at.set_flag("parser_error", constant(self.error(error)))
            self.at.leave()

        return fail

    # -- states as a tree ---------------------------------------------------------------------------------------------

    def _enter(self, name: str | None) -> None:
        if name is not None:
            self._state(self.program.states[name], self._enter)
        elif self.on_accept is not None:
            self.on_accept()

    # -- states as parts of a loop ------------------------------------------------------------------------------------

    def _states_in_loop(self, start: str) -> None:
        """Emit a loop over all states."""
        numbers = {name: number for number, name in enumerate(self.program.states)}

        def enter(name: str | None) -> None:
            if name is None:
                self.at.leave()
            else:
                self.at.go(numbers[name])

        def part(state: p4.ParserState) -> Body:
            return lambda: self._state(state, enter)

        self.at.dispatch([part(state) for state in self.program.states.values()], numbers[start])

    # -- one state ----------------------------------------------------------------------------------------------------

    def _state(self, state: p4.ParserState, enter: Callable[[str | None], None]) -> None:
        """Emit a state's operations and its select; `enter` emits the continuation with the next state."""
        for op in state.ops:
            with naming(f"parser state {state.name}{op.where or state.where}"):
                self._operation(op)
            if self.at.state.dead:
                return
        self._select(state, enter)

    def _operation(self, op: p4.ParserOp) -> None:
        if op.op == "extract":
            self._extract(op.args[0], None)
        elif op.op == "extract_VL":
            self._extract(op.args[0], op.args[1])
        elif op.op == "set":
            target, source = op.args
            assert isinstance(target, p4.FieldRef)
            if isinstance(source, p4.FieldRef) and source.name != "$valid$" and self.program.field(source).varbit:
                self.primitives.primitive(p4.Primitive("assign_VL", op.args, op.where))
                return
            self._need_lookahead(source)
            if not self.at.state.dead:
                self.at.write(target, self.at.expr(source))
        elif op.op == "verify":
            self._verify(op)
        elif op.op == "advance":
            self._advance(op)
        elif op.call is not None:
            for arg in op.call.args:
                self._need_lookahead(arg)
            self.primitives.primitive(op.call)

    def _verify(self, op: p4.ParserOp) -> None:
        cond = self.at.expr(op.args[0])
        error = self.at.expr(op.args[1])

        def fail() -> None:
            self.at.set_flag("parser_error", error)
            self.at.leave()

        self.at.branch(unary("not", cond), fail)
        if not self.at.state.dead:
            self.at.learn(op.args[0], truth=True)

    def _require(self, count: IntExpr) -> None:
        """Emit the check that `count` more bytes exist."""
        if count.value == 0:
            return
        position = self.at.state.position
        if position is not None and count.value is not None:
            end = str(position + count.value)
        else:
            end = f"{self._cursor()} + {count.operand}"
        self.at.branch(IntExpr(f"length < {end}", 0, 1), self._fail("PacketTooShort"))

    def _cursor(self) -> str:
        return "pos" if self.at.state.position is None else str(self.at.state.position)

    def _proceed(self, count: IntExpr) -> None:
        position = self.at.state.position
        if position is not None and count.value is not None:
            self.at.state.position = position + count.value
        else:
            self.at.line(f"pos = {self._cursor()} + {count.operand}")
            self.at.state.position = None

    def _need_lookahead(self, node: object) -> None:
        """Emit the length check for a lookahead anywhere in an expression."""
        if isinstance(node, p4.Lookahead):
            self._require(constant((node.offset + node.width + 7) // 8))
        for part in p4.parts_of(node):
            self._need_lookahead(part)

    def _advance(self, op: p4.ParserOp) -> None:
        amount = self.at.hoisted(self.at.expr(op.args[0]))
        if amount.value is not None:
            if amount.value % 8:
                self._fail("ParserInvalidArgument")()
                return
            count = constant(amount.value // 8)
        else:
            self.at.branch(IntExpr(f"{amount.operand} & 7", 0, 1), self._fail("ParserInvalidArgument"))
            count = IntExpr(f"({amount.operand} >> 3)", 0, amount.high >> 3, atom=True)
        self._require(count)
        if not self.at.state.dead:
            self._proceed(count)

    # -- extraction ---------------------------------------------------------------------------------------------------

    def _extract(self, target: p4.Expr, length: p4.Expr | None) -> None:
        if isinstance(target, p4.HeaderRef):
            self._extract_header(target.name, length)
            return
        assert isinstance(target, p4.StackRef | p4.StackField)
        name, member = (target.name, None) if isinstance(target, p4.StackRef) else (target.stack, target.member)
        elements = self.at.stack_headers(name, member)
        index = self.at.next_index(name)
        self.at.branch(comparison(">=", index, constant(len(elements))), self._fail("StackOutOfBounds"))
        if self.at.state.dead:
            return
        self.headers.for_element(index, elements, lambda header: self._extract_header(header, length))
        if self.at.state.dead:
            return
        if index.value is not None:
            self.at.state.next[name] = index.value + 1
        else:
            self.at.line(f"{index.code} += 1")

    def _extract_header(self, header: str, length: p4.Expr | None) -> None:
        kind = self.program.headers[header].type
        fixed = kind.bits // 8
        varbit: IntExpr = constant(0)
        if kind.varbit is not None:
            varbit = self._varbit_bytes(header, kind, length)
            if self.at.state.dead:
                return
        total = arithmetic("+", varbit, constant(fixed))
        self._require(total)
        if self.at.state.dead:
            return
        if kind.varbit is not None and kind.max_bytes and total.high > kind.max_bytes:
            self.at.branch(IntExpr(f"{total.code} > {kind.max_bytes}", 0, 1), self._fail("HeaderTooShort"))
        if varbit.value is None:
            self.at.line(f"{self.at.names.length(header)} = {varbit.code}")
        if self.at.state.position is None:
            self.at.line(f"{self.at.names.offset(header)} = pos")
        self.headers.mark_valid(header)
        self.at.state.replace(header, HeaderState(True, self.at.state.position, varbit.value))
        self._proceed(total)

    def _varbit_bytes(self, header: str, kind: p4.HeaderType, length: p4.Expr | None) -> IntExpr:
        """Return the varbit's length in bytes; P4_14 computes it from the header's own fields."""
        if length is None:
            if kind.p4_14:
                raise PipelineError(f"header {header}: P4_14 length expressions are not supported")
            raise PipelineError(f"header {header}: varbit without a length")
        amount = self.at.hoisted(self.at.expr(length))
        if amount.value is not None:
            return constant(amount.value // 8)
        self.at.branch(IntExpr(f"{amount.operand} & 7", 0, 1), self._fail("ParserInvalidArgument"))
        return self.at.hoisted(IntExpr(f"{amount.operand} >> 3", 0, amount.high >> 3))

    # -- select -------------------------------------------------------------------------------------------------------

    def _select(self, state: p4.ParserState, enter: Callable[[str | None], None]) -> None:  # noqa: C901
        cases = list(state.transitions)
        default = next((case for case in cases if case.value is None and case.value_set is None), None)
        otherwise = default.next_state if default is not None else None
        if not state.key:
            enter(otherwise)
            return
        for key, _ in state.key:
            self._need_lookahead(key)
            if self.at.state.dead:
                return
        keys = [self._key(key) for key, _ in state.key]

        def arm(case: p4.Transition) -> Body:
            def body() -> None:
                if len(state.key) == 1 and case.value is not None and case.mask is None:
                    key = state.key[0][0]
                    if isinstance(key, p4.FieldRef) and not (key.name != "$valid$" and self.program.field(key).signed):
                        self.at.know(key, case.value)
                enter(case.next_state)

            return body

        arms: list[tuple[str | None, Body]] = []
        for case in cases:
            if case.value is None and case.value_set is None:
                break
            code = self._case(state, keys, case)
            if code == "True":
                arms.append((None, arm(case)))
                break
            if code != "False":
                arms.append((code, arm(case)))
        else:
            arms.append((None, lambda: enter(otherwise)))
        if not arms or arms[-1][0] is not None:
            arms.append((None, lambda: enter(otherwise)))
        self.at.chain(arms)

    def _key(self, key: p4.Expr) -> IntExpr:
        expr = self.at.hoisted(self.at.expr(key))
        if expr.low < 0:
            width = (-expr.low).bit_length()
            return self.at.hoisted(arithmetic("&", expr, constant((1 << width) - 1)))
        return expr

    def _case(self, state: p4.ParserState, keys: list[IntExpr], case: p4.Transition) -> str:
        widths = [padded(width) for _, width in state.key]
        if case.value_set is not None:
            number = list(self.program.value_sets).index(case.value_set)
            masks = self._split_key(case.mask, widths) if case.mask is not None else [None] * len(keys)
            terms = [k.code if m is None else f"{k.operand} & {m:#x}" for k, m in zip(keys, masks, strict=True)]
            return f"vset_{number}({', '.join(terms)})"
        assert case.value is not None
        values = self._split_key(case.value, widths)
        masks = [None] * len(keys) if case.mask is None else self._split_key(case.mask, widths)
        terms = []
        for key, value, mask in zip(keys, values, masks, strict=True):
            assert value is not None
            if mask is None:
                test = comparison("==", key, constant(value))
            else:
                test = comparison("==", arithmetic("&", key, constant(mask)), constant(value & mask))
            if test.value == 0 or (value if mask is None else value & mask) > max(key.high, 0):
                return "False"
            if test.value != 1:
                terms.append(test.code)
        return " and ".join(terms) or "True"

    @staticmethod
    def _split_key(value: int, widths: list[int]) -> list[int | None]:
        """Split a byte-padded key into its fields."""
        parts: list[int | None] = []
        for width in reversed(widths):
            parts.append(value & ((1 << width) - 1))
            value >>= width
        return parts[::-1]
