"""Branches in generated code: forks of the known facts, and their merges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mrclab.softswitch.compiler.analysis.state import FLAGS, Known, Local, Names, SymbolicState, is_dirty, join
from mrclab.softswitch.compiler.block import Block, Fork, IntExpr, LoopScope
from mrclab.softswitch.compiler.expressions.expr import Scope
from mrclab.softswitch.p4 import program as p4

Body = Callable[[], None]
End = tuple[Block, SymbolicState]
"""End of a branch: its block, and the facts known there."""

MAX_STEPS = 1 << 16
"""Iterations of loops per packet; an endless loop costs the packet, not the switch."""


class BranchScope(Scope):
    """A scope that can branch, and leave an enclosing part early."""

    def __init__(self, program: p4.Program, names: Names, state: SymbolicState, block: Block) -> None:
        self.top = block.add(Block())  # where the function begins
        super().__init__(program, names, state, block)
        self._exits: list[End] = []
        self.exited: list[End] = []  # of the whole pipeline
        self._jumps: list[End] = []
        self._next_part = ""

    def branch(self, cond: IntExpr, then: Body, otherwise: Body | None = None) -> None:
        """Emit an if with an optional else; only one body if the condition is known."""
        if cond.value is not None:
            if cond.value:
                then()
            elif otherwise is not None:
                otherwise()
            return
        arms: list[tuple[str | None, Body]] = [(cond.code, then), (None, otherwise or _nothing)]
        self.chain(arms)

    def chain(self, arms: Sequence[tuple[str | None, Body]]) -> None:
        """Emit if/elif/else from (condition code, body) pairs; the last condition may be None for else.

        Conditions must need no lines of their own. Without an else, falling through changes nothing.
        """
        outer = self.block

        def ended(body: Body) -> list[End]:
            body()
            return self.here()

        ends = self.fork([(code, partial(ended, body)) for code, body in arms])
        self.block, self.state = outer, self.merge(ends)

    def fork(self, arms: Sequence[tuple[str | None, Callable[[], list[End]]]]) -> list[End]:
        """Emit the same from bodies that return their ends; return all of them."""
        if arms and arms[0][0] is None:
            return arms[0][1]()
        if not arms or arms[-1][0] is not None:
            arms = [*arms, (None, self.here)]
        before, fork = self.state, self.block.add(Fork())
        ends: list[End] = []
        for code, body in arms:
            self.block, self.state = fork.arm(code), before.copy()
            ends.extend(body())
        return ends

    def here(self) -> list[End]:
        """Return the present place as the end of a branch, if it is reached."""
        return [] if self.state.dead else [(self.block, self.state)]

    def merge(self, ends: Sequence[End]) -> SymbolicState:
        """Merge several ends of branches into one state and return it."""
        joined = join(state for _, state in ends)
        self._prune(joined)
        for block, state in ends:
            self.conformer.conform(block, state, joined)
        return joined

    def _prune(self, state: SymbolicState) -> None:
        """Forget values that are not needed later, so that branches need not agree on them."""
        for name in list(state.headers):
            if name == FLAGS:
                continue
            info = state.headers[name]
            local = [field for field, place in info.fields.items() if isinstance(place, Local)]
            unneeded = [field for field in local if not self._needed(name, field, info.valid)]
            if unneeded:
                info = state.edit(name)
                for field in unneeded:
                    if self.program.headers[name].metadata:
                        info.fields[field] = Known(0)
                    else:
                        del info.fields[field]

    def once(self, body: Body, repeat: bool = False) -> None:
        """Emit a part that `leave` ends early (with `repeat`: that alone ends it); merge all its ends behind it."""
        outer, exits, loop = self.block, self._exits, self.block.add(LoopScope())
        self.block, self._exits = loop.body, []
        body()
        ends = list(self._exits)
        loop.breaks, loop.repeat = bool(ends) or repeat, repeat
        if not self.state.dead and not repeat:
            ends.append((self.block, self.state))
        self.block, self._exits, self.state = outer, exits, self.merge(ends)

    def leave(self) -> None:
        """Leave the enclosing `once`."""
        self._exits.append((self.block.add(Block()), self.state.copy()))
        self.block.line("break")
        self.state.dead = True

    # -- loops --------------------------------------------------------------------------------------------------------

    def dispatch(self, parts: Sequence[Body], first: int) -> None:
        """Emit a loop over parts that end by `go` to any of them or by `leave`; `first` runs first.

        All parts begin with the same facts: those that hold before the loop and at every `go`. They are found by
        iteration: as long as a part ends with fewer facts than all began with, they are emitted again.
        """
        outer, entry, variable = self.block, self.state, self.temporary()
        saved = self._exits, self._jumps, self._next_part
        head, exited = entry.copy(), len(self.exited)
        while True:
            del self.exited[exited:]
            body, self._exits, self._jumps, self._next_part = Block(), [], [], variable
            body.line("steps -= 1")
            body.line("if not steps: raise LoopError")
            self._parts(body, parts, head)
            joined = join([head, *(state for _, state in self._jumps)])
            self._prune(joined)
            if joined == head:
                break
            head = joined
        self.conformer.conform(outer, entry, head)
        for block, state in self._jumps:
            self.conformer.conform(block, state, head)
        outer.line(f"{variable} = {first}")
        if not self.top.items:
            self.top.line(f"steps = {MAX_STEPS}")
        loop = outer.add(LoopScope())
        loop.body, loop.breaks, loop.repeat = body, True, True
        exits = self._exits
        self._exits, self._jumps, self._next_part = saved
        self.block, self.state = outer, self.merge(exits)

    def _parts(self, body: Block, parts: Sequence[Body], head: SymbolicState) -> None:
        fork = body.add(Fork())
        for number, part in enumerate(parts):
            code = None if number == len(parts) - 1 else f"{self._next_part} == {number}"
            self.block, self.state = fork.arm(code), head.copy()
            part()
            assert self.state.dead, "a part must say what comes after it"

    def go(self, part: int) -> None:
        """Continue with a part of the enclosing `dispatch`."""
        self._jumps.append((self.block.add(Block()), self.state.copy()))
        self.block.line(f"{self._next_part} = {part}")
        self.state.dead = True

    # -- facts that follow from a condition ---------------------------------------------------------------------------

    def learn(self, node: p4.Expr, truth: bool) -> None:
        """Record the facts that follow from a condition being true or false."""
        if not isinstance(node, p4.Operation):
            return
        op, left, right = node.op, node.left, node.right
        if op == "not" and right is not None:
            self.learn(right, not truth)
        elif op == ("and" if truth else "or") and left is not None and right is not None:
            self.learn(left, truth)
            self.learn(right, truth)
        elif op == "d2b" and isinstance(right, p4.FieldRef) and (self._is_bit(right) or not truth):
            self.know(right, int(truth))
        elif op == "valid" and isinstance(right, p4.HeaderRef):
            self.state.edit(right.name).valid = truth
        elif op == ("==" if truth else "!=") and isinstance(left, p4.FieldRef) and isinstance(right, p4.Const):
            self.know(left, right.value)

    def _is_bit(self, ref: p4.FieldRef) -> bool:
        return ref.name == "$valid$" or self.program.field(ref).width == 1

    def know(self, ref: p4.FieldRef, value: int) -> None:
        """Record that a field has this value."""
        info = self.state.edit(ref.header)
        if ref.name == "$valid$":
            info.valid = bool(value)
        elif info.valid is not False:
            info.fields[ref.name] = Known(value, is_dirty(info.place(ref.name)))


def _nothing() -> None:
    """Do nothing: a body without code."""
