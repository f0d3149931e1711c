"""Code generator: assembles the source of a program's ingress and egress functions.

The generated module has

- `ingress(d, port, length)`: a received packet, from the parser to the queue;
- `ingress_again(d, port, length, instance, *preserved)`: the same for a resubmitted or recirculated one;
- `clone_ingress(d, port, length, *preserved)`: parses the original of an ingress clone, returns its queue state;
- `egress_N(state, port, queue, enq_us, enq_depth, depth)`: a dequeued packet, from egress to the wire; one function
  for each layout of the queue state (`handover`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mrclab.softswitch.compiler import vocabulary
from mrclab.softswitch.compiler.analysis import liveness
from mrclab.softswitch.compiler.analysis.graph import joins
from mrclab.softswitch.compiler.analysis.state import DIRTY, FLAGS, Known, Names, SymbolicState, initial
from mrclab.softswitch.compiler.block import Block, Indented, IntExpr, bits, constant
from mrclab.softswitch.compiler.control import ControlEmitter
from mrclab.softswitch.compiler.expressions.calculations import Calculations
from mrclab.softswitch.compiler.expressions.operators import comparison
from mrclab.softswitch.compiler.flow import BranchScope
from mrclab.softswitch.compiler.handover import FLAG_NAMES, Handover, Layout
from mrclab.softswitch.compiler.packets.deparse import Deparser
from mrclab.softswitch.compiler.packets.headers import HeaderOps
from mrclab.softswitch.compiler.packets.parse import ParserEmitter
from mrclab.softswitch.compiler.primitives import CLONE_FLAG, Primitives
from mrclab.softswitch.p4 import program as p4
from mrclab.softswitch.p4.layout import EGRESS_CLONE, INGRESS_CLONE, RECIRCULATED, REPLICATED, RESUBMITTED, UNCUT

LEAF_BUDGET = 900
"""Nodes of ingress times leaves of the parser up to which each leaf gets an ingress of its own."""


@dataclass(frozen=True)
class Parts:
    """Emitters of one function's parts, all at `at`."""

    at: BranchScope
    headers: HeaderOps
    calculations: Calculations
    parser: ParserEmitter
    control: ControlEmitter
    deparser: Deparser


@dataclass(frozen=True)
class Generated:
    """Generated source, and the facts that the switch needs about it."""

    source: str
    enqueue_time: bool  # the program reads enq_timestamp or deq_timedelta


class Generator:
    """Generates one program; `drop_port` is the target's."""

    def __init__(self, program: p4.Program, drop_port: int = 511) -> None:
        self.program = program
        self.drop_port = drop_port
        self.names = Names()
        self.ingress_reads = liveness.ingress_reads(program)
        self.egress_reads = liveness.egress_reads(program)
        self.joins = {name: joins(pipeline) for name, pipeline in program.pipelines.items()}
        self.deparsed = set(program.deparser)
        self.again = liveness.uses(program, "resubmit", "recirculate")
        self.clones = liveness.uses(program, "clone_ingress_pkt_to_egress")
        self.egress_clones = liveness.uses(program, "clone_egress_pkt_to_egress")
        refs = dict.fromkeys(ref for refs in program.field_lists.values() for ref in refs)
        self.preserved = tuple(refs) if self.again or self.clones or self.egress_clones else ()
        self.handover = Handover(self._parts(initial(program, FLAG_NAMES), Block(), self._live_in_egress).at)

    # -- the whole ----------------------------------------------------------------------------------------------------

    def generate(self) -> Generated:
        """Return the source."""
        blocks = [self._ingress()]
        if self.again:
            blocks.append(self._ingress(again=True))
        if self.clones:
            blocks.append(self._clone_ingress())
        while waiting := self.handover.settle():
            blocks.extend(self._egress(layout) for layout in waiting)
        source = "\n".join(line for block in blocks for line in [*block.render(0), "", ""])
        vocabulary.check(source)
        times = {"enq_timestamp", "deq_timedelta"}
        reads_time = any(name in times for _, name in self.egress_reads | self.ingress_reads)
        return Generated(source, reads_time)

    def _live_in_egress(self, header: str, name: str) -> bool:
        return header == FLAGS or header in self.deparsed or (header, name) in self.egress_reads

    def _live_in_ingress(self, header: str, name: str) -> bool:
        return self._live_in_egress(header, name) or (header, name) in self.ingress_reads

    def _parts(self, state: SymbolicState, block: Block, live: Callable[[str, str], bool]) -> Parts:
        """Return the emitters of code into a block from a state on; `live` returns the fields needed later."""
        at = BranchScope(self.program, self.names, state, block)
        at.live = live
        reads = self.egress_reads if live == self._live_in_egress else self.egress_reads | self.ingress_reads
        at.is_read = lambda header, name: (header, name) in reads
        length = self.program.standard("standard_metadata", "packet_length")
        headers = HeaderOps(at, length is not None and (length.header, length.name) in self.egress_reads)
        calculations = Calculations(at)
        primitives = Primitives(at, headers, calculations, self.drop_port)
        return Parts(
            at,
            headers,
            calculations,
            ParserEmitter(at, headers, primitives),
            ControlEmitter(at, primitives, calculations, self.joins),
            Deparser(at, headers, primitives, calculations),
        )

    def _set(self, parts: Parts, header: str, name: str, expr: IntExpr) -> None:
        """Set a target field if the program has it."""
        ref = self.program.standard(header, name)
        if ref is not None:
            parts.at.write(ref, expr)

    def _get(self, parts: Parts, header: str, name: str) -> IntExpr:
        ref = self.program.standard(header, name)
        return parts.at.read(ref) if ref is not None else constant(0)

    def _params(self) -> str:
        return "".join(f", m{number}" for number in range(len(self.preserved)))

    def _take_params(self, parts: Parts) -> None:
        """Set preserved fields from the function's parameters."""
        self._restore(parts, [f"m{number}" for number in range(len(self.preserved))])

    def _restore(self, parts: Parts, values: list[str]) -> None:
        """Set preserved fields from locals."""
        for value, ref in zip(values, self.preserved, strict=True):
            parts.at.write(ref, parts.at.typed(value, self.program.field(ref)))

    def _preserved(self, parts: Parts, flag: str) -> str:
        """Return the code of the tuple of preserved values for the field list that a flag selects."""
        number = parts.at.flag(flag)
        if number.value is not None:
            kept = set(self.program.field_lists.get(number.value, ()))
            values = [parts.at.read(ref).code if ref in kept else "0" for ref in self.preserved]
            return f"({', '.join(values)},)" if values else "()"
        lists = list(self.program.field_lists)
        values = []
        for ref in self.preserved:
            member = [str(n) for n in lists if ref in self.program.field_lists[n]]
            values.append(f"{parts.at.read(ref).code} if {number.code} in ({', '.join(member)},) else 0")
        return f"({', '.join(values)},)" if values else "()"

    # -- ingress ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _function(head: str) -> tuple[Block, Block]:
        outer, body = Block(), Block()
        outer.items.extend([f"def {head}:", Indented(body)])
        return outer, body

    def _ingress(self, again: bool = False) -> Block:
        head = f"ingress_again(d, port, length, instance{self._params()})" if again else "ingress(d, port, length)"
        outer, body = self._function(head)
        parts = self._parts(initial(self.program, FLAG_NAMES), body, self._live_in_ingress)
        if parts.headers.track_length:
            parts.at.set_flag("length", IntExpr("length", 0, 1 << 32, atom=True))
        if again:
            self._take_params(parts)
            self._set(parts, "standard_metadata", "instance_type", bits("instance", 32, atom=True))
        else:
            self._set(parts, "standard_metadata", "ingress_port", bits("port", 9, atom=True))
            self._set(parts, "intrinsic_metadata", "ingress_global_timestamp", bits("now_us()", 48))
        self._set(parts, "standard_metadata", "packet_length", bits("length", 32, atom=True))
        nodes = len(self.program.pipelines["ingress"].nodes)
        if parts.parser.is_tree and parts.parser.leaves(self.program.parser_start) * (nodes + 5) <= LEAF_BUDGET:
            parts.parser.on_accept = lambda: self._behind_parser(parts)
        parts.parser.emit()
        parts.parser.on_accept = None
        self._behind_parser(parts)
        body.line("return")
        return outer

    def _behind_parser(self, parts: Parts) -> None:
        """Emit everything from the parser to the queue; nothing follows it."""
        if parts.at.state.dead:
            return
        parts.calculations.verify_checksums()
        self._set(parts, "standard_metadata", "parser_error", _narrow(parts.at.flag("parser_error"), 32))
        self._set(parts, "standard_metadata", "checksum_error", _narrow(parts.at.flag("checksum_error"), 1))
        outer = parts.at.block
        parts.control.pipeline("ingress", lambda: self._after_ingress(parts))
        parts.at.block = outer
        outer.line("return")
        parts.at.state.dead = True

    def _after_ingress(self, parts: Parts) -> None:
        """Emit the steps of simple_switch between ingress and the queues."""
        if self.clones:
            parts.at.branch(_set_flag(parts.at.flag("clone")), lambda: self._clone_from_ingress(parts))
        self._learn(parts)
        if self.again:
            parts.at.branch(_set_flag(parts.at.flag("resubmit")), lambda: self._resubmit(parts))
            if parts.at.state.dead:
                return
        queue = self._get(parts, "intrinsic_metadata", "priority")
        group = self._get(parts, "intrinsic_metadata", "mcast_grp")
        port = self._get(parts, "standard_metadata", "egress_spec")

        def replicate() -> None:
            self.handover.add(parts.at, f"multicast({group.code}, {queue.code}, {{}})", REPLICATED)

        def unicast() -> None:
            parts.at.branch(
                comparison("!=", port, constant(self.drop_port)),
                lambda: self.handover.add(parts.at, f"enqueue({port.code}, {queue.code}, {{}})", 0),
            )

        parts.at.branch(_set_flag(group), replicate, unicast)

    def _learn(self, parts: Parts) -> None:
        digest = parts.at.flag("digest")

        def learn(number: int) -> Callable[[], None]:
            fields = self.program.learn_lists[number].fields
            return lambda: parts.at.line(
                f"learn({number}, ({''.join(parts.at.expr(e).code + ', ' for e, _ in fields)}))"
            )

        if digest.value:
            learn(digest.value)()
        elif digest.value is None:
            parts.at.chain([(f"{digest.code} == {number}", learn(number)) for number in self.program.learn_lists])

    def _clone_from_ingress(self, parts: Parts) -> None:
        session = parts.at.flag("clone")
        name = parts.at.temporary()
        parts.at.line(f"{name} = clone_sessions.get({session.operand} & {CLONE_FLAG - 1:#x})")

        def clone() -> None:
            values = self._preserved(parts, "clone_list")
            parts.at.line(f"clone_to({name}, *clone_ingress(bytearray(d), port, length, *{values}))")

        parts.at.chain([(f"{name} is not None", clone)])

    def _resubmit(self, parts: Parts) -> None:
        values = self._preserved(parts, "resubmit")
        parts.at.line(f"again((d, port, length, {RESUBMITTED}, *{values}))")
        parts.at.line("return")
        parts.at.state.dead = True

    def _clone_ingress(self) -> Block:
        outer, body = self._function(f"clone_ingress(d, port, length{self._params()})")
        parts = self._parts(initial(self.program, FLAG_NAMES), body, self._live_in_ingress)
        if parts.headers.track_length:
            parts.at.set_flag("length", IntExpr("length", 0, 1 << 32, atom=True))
        self._set(parts, "standard_metadata", "ingress_port", bits("port", 9, atom=True))
        parts.parser.emit()
        self._reset_metadata(parts)
        self._take_params(parts)
        queue = self._get(parts, "intrinsic_metadata", "priority")
        self.handover.add(parts.at, f"return {queue.code}, {{}}", INGRESS_CLONE, truncate=str(UNCUT))
        return outer

    def _reset_metadata(self, parts: Parts) -> None:
        for header in self.program.headers.values():
            if header.metadata:
                fields = parts.at.state.edit(header.name).fields
                for field in header.type.fields:
                    fields[field.name] = Known(0)

    # -- egress -------------------------------------------------------------------------------------------------------

    def _egress(self, layout: Layout) -> Block:
        outer, body = self._function(f"egress_{layout.number}(state, port, queue, enq_us, enq_depth, depth)")
        parts = self._parts(layout.state.copy(), body, self._live_in_egress)
        fixed = ["_", "d", "length", "instance", "rid", self.names.field(FLAGS, "truncate")]
        body.line(f"{', '.join([*fixed, *self.handover.spilled(layout.state)])} = state")
        self._prologue(parts)
        parts.control.pipeline("egress", lambda: self._after_egress(parts))
        return outer

    def _after_egress(self, parts: Parts) -> None:
        """Emit the steps of simple_switch between egress and the wire."""
        if self.egress_clones:
            parts.at.branch(_set_flag(parts.at.flag("clone")), lambda: self._clone_from_egress(parts))
        spec = self._get(parts, "standard_metadata", "egress_spec")
        parts.at.branch(comparison("!=", spec, constant(self.drop_port)), lambda: self._send(parts))

    def _send(self, parts: Parts) -> None:
        truncate = parts.at.flag("truncate")
        parts.deparser.emit()
        if truncate.value != UNCUT:
            parts.at.line(f"del d[{truncate.code}:]")
        parts.at.branch(
            _set_flag(parts.at.flag("recirculate")),
            lambda: self._recirculate(parts),
            lambda: parts.at.line("transmit(port, d)"),
        )

    def _prologue(self, parts: Parts) -> None:
        """Emit the fields that simple_switch sets between the queue and egress."""
        parts.at.set_flag("clone", constant(0))
        place = parts.at.state.headers[FLAGS].place("truncate")
        if not isinstance(place, Known):
            parts.at.state.edit(FLAGS).fields["truncate"] = DIRTY
        standard, intrinsic, queueing = "standard_metadata", "intrinsic_metadata", "queueing_metadata"
        self._set(parts, standard, "instance_type", bits("instance", 32, atom=True))
        self._set(parts, intrinsic, "egress_rid", bits("rid", 16, atom=True))
        self._set(parts, intrinsic, "egress_global_timestamp", bits("now_us()", 48, atom=True))
        self._set(parts, queueing, "enq_timestamp", bits("enq_us", 32, atom=True))
        self._set(parts, queueing, "enq_qdepth", bits("enq_depth", 19, atom=True))
        self._set(parts, queueing, "deq_timedelta", IntExpr("now_us() - enq_us", 0, 1 << 63))
        self._set(parts, queueing, "deq_qdepth", bits("depth", 19, atom=True))
        self._set(parts, queueing, "qid", bits("queue", 8, atom=True))
        self._set(parts, standard, "egress_port", bits("port", 9, atom=True))
        self._set(parts, standard, "egress_spec", constant(self.drop_port + 1))
        if parts.headers.track_length:
            self._set(parts, standard, "packet_length", _narrow(parts.at.flag("length"), 32))

    def _clone_from_egress(self, parts: Parts) -> None:
        """Emit an egress clone: the current headers, without metadata except the preserved fields."""
        name = parts.at.temporary()
        parts.at.line(f"{name} = clone_sessions.get({parts.at.flag('clone').operand} & {CLONE_FLAG - 1:#x})")
        parts.at.chain([(f"{name} is not None", lambda: self._send_egress_clone(parts, name))])

    def _send_egress_clone(self, parts: Parts, session: str) -> None:
        kept = self._preserved(parts, "clone_list")
        copy = self._parts(parts.at.state.copy(), parts.at.block, self._live_in_egress)
        copy.at.counter = parts.at.counter
        values = [f"k{number}" for number in range(len(self.preserved))]
        if values:
            parts.at.line(f"{', '.join(values)}, = {kept}")
        saved = parts.at.temporary()
        before = self.handover.spilled(parts.at.state)  # the copy's values use the same locals
        if before:
            parts.at.line(f"{saved} = ({', '.join(before)},)")
        self._reset_metadata(copy)
        self._restore(copy, values)
        queue = self._get(copy, "intrinsic_metadata", "priority")
        call = f"clone_to({session}, {queue.code}, {{}})"
        self.handover.add(copy.at, call, EGRESS_CLONE, "bytearray(d)", truncate=str(UNCUT))
        if before:
            parts.at.line(f"{', '.join(before)}, = {saved}")

    def _recirculate(self, parts: Parts) -> None:
        values = self._preserved(parts, "recirculate")
        parts.at.line(f"again((d, port, len(d), {RECIRCULATED}, *{values}))")


def _set_flag(expr: IntExpr) -> IntExpr:
    return constant(int(bool(expr.value))) if expr.value is not None else IntExpr(expr.code, 0, 1, expr.atom)


def _narrow(expr: IntExpr, width: int) -> IntExpr:
    """Return a flag's expression as one of `width` bits, which it always fits."""
    return expr if expr.value is not None else bits(expr.code, width, expr.atom)
