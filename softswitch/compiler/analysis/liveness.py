"""Liveness of fields: those that each half of the program reads; others need neither code nor space in the queue."""

from __future__ import annotations

from collections.abc import Iterable

from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.kinds import PRIMITIVES, TARGET

INGRESS_TARGETS = (
    ("standard_metadata", "egress_spec"),
    ("intrinsic_metadata", "mcast_grp"),
    ("intrinsic_metadata", "priority"),
)
"""Fields that simple_switch reads after ingress; after egress only the first."""


_WRITES_FIRST = {"assign_VL", "mark_to_drop", "add_header", "remove_header"} | {
    op
    for op, params in PRIMITIVES.items()
    if params[:1] == (TARGET,) and op not in {"add_to_field", "subtract_from_field"}
}
"""Primitives that do not read the field or header that they write."""


class Reads:
    """The fields read by a set of expressions; whole headers and stacks count with all their fields."""

    def __init__(self, program: p4.Program) -> None:
        self.program = program
        self.fields: set[tuple[str, str]] = set()

    def expr(self, node: object) -> None:
        """Add the fields read by an expression."""
        if isinstance(node, p4.FieldRef):
            self.fields.add((node.header, node.name))
        elif isinstance(node, p4.HeaderRef | p4.StackRef | p4.UnionRef):
            for header in self.program.mentioned(node):
                self.fields.update((header, field.name) for field in self.program.headers[header].type.fields)
        elif isinstance(node, p4.StackField):
            self.expr(p4.StackRef(node.stack))
        else:
            self.all(p4.parts_of(node))

    def all(self, nodes: Iterable[object]) -> None:
        """Add the fields read by several expressions."""
        for node in nodes:
            self.expr(node)

    def call(self, call: p4.Primitive) -> None:
        """Add the fields read by a primitive; a plain field as first argument is only written by most."""
        args = call.args
        if call.op == "execute_meter":
            args = args[:2]
        elif call.op in _WRITES_FIRST and args and isinstance(args[0], p4.FieldRef | p4.HeaderRef):
            args = args[1:]
        self.all(args)
        for arg in call.args:
            if isinstance(arg, p4.Named) and arg.kind == "calculation":
                self.calculation(arg.name)

    def calculation(self, name: str) -> None:
        """Add the fields read by a calculation."""
        calculation = self.program.calculations.get(name)
        if calculation is not None:
            self.all(expr for expr, _ in calculation.inputs)

    def parser(self) -> None:
        """Add the fields read by the parser and the checksum verification."""
        for state in self.program.states.values():
            self.all(key for key, _ in state.key)
            for op in state.ops:
                self.all(op.args[1:] if op.op in {"set", "extract", "extract_VL"} else op.args)
                if op.call is not None:
                    self.call(op.call)
        verified = [checksum for checksum in self.program.checksums if checksum.verify]
        self._checksums(verified)
        self.all(checksum.target for checksum in verified)

    def _checksums(self, checksums: Iterable[p4.Checksum]) -> None:
        for checksum in checksums:
            self.calculation(checksum.calculation)
            self.expr(checksum.condition)

    def deparser(self) -> None:
        """Add the fields read by the checksum update and the deparser's own calls."""
        self._checksums(checksum for checksum in self.program.checksums if checksum.update)
        for call in self.program.deparser_calls:
            self.call(call)

    def pipeline(self, name: str) -> None:
        """Add the fields read by a pipeline."""
        for node in self.program.pipelines[name].nodes.values():
            self.node(node)

    def node(self, node: p4.Node) -> None:
        """Add the fields read by one node of a pipeline."""
        if isinstance(node, p4.Conditional):
            self.expr(node.condition)
        elif isinstance(node, p4.ActionCallNode):
            self._action(self.program.actions[node.action_id])
        else:
            self.all(key.target for key in node.key)
            for action in node.actions:
                self._action(action)
            if node.profile is not None:
                self.all(self.program.profiles[node.profile].inputs)

    def _action(self, action: p4.Action) -> None:
        for call in action.primitives:
            self.call(call)

    def lists(self) -> None:
        """Add the fields read by digests and preserved field lists."""
        for learn in self.program.learn_lists.values():
            self.all(expr for expr, _ in learn.fields)
        for refs in self.program.field_lists.values():
            self.all(refs)

    def standard(self, *names: tuple[str, str]) -> None:
        """Add target fields, where the program has them."""
        for header, name in names:
            self.expr(self.program.standard(header, name))


def uses(program: p4.Program, *ops: str) -> bool:
    """Return whether the program calls one of these primitives."""
    return any(call.op in ops for call in program.primitives())


def ingress_reads(program: p4.Program) -> set[tuple[str, str]]:
    """Return the fields read from the parser to the end of ingress."""
    reads = Reads(program)
    reads.parser()
    reads.pipeline("ingress")
    reads.lists()
    reads.standard(*INGRESS_TARGETS)
    return reads.fields


def egress_reads(program: p4.Program) -> set[tuple[str, str]]:
    """Return the fields read from the start of egress to the end of the deparser."""
    reads = Reads(program)
    reads.pipeline("egress")
    reads.deparser()
    if uses(program, "clone_egress_pkt_to_egress", "recirculate"):
        reads.lists()
    reads.standard(INGRESS_TARGETS[0])
    return reads.fields
