"""The process group `mrc`: every collective of torch.distributed on CPU tensors, over the mesh of this process.

All groups of a process share one mesh: QPs lead from rank to rank of the job, whatever groups these are in. A
collective that takes several tensors is several operations side by side, or one on their elements in a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
from torch import Tensor
from torch.distributed import distributed_c10d as c10d

from mrclab.hosts.collectives import algorithms
from mrclab.hosts.collectives.algorithms import Collective
from mrclab.hosts.collectives.operation import ANY, MESSAGE, MeshOperation
from mrclab.torch.membership import CODES, GroupMember
from mrclab.torch.tensors import Target, check, combiner, flattened, operation, raw, source
from mrclab.torch.work import MrcReceive, MrcWork

_TAG_BITS: Final = 0xFFFFFFFF


def create(options: Any, backend_options: Any = None) -> MrcProcessGroup:
    """Make a process group, as torch.distributed calls its backends."""
    del backend_options
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    return MrcProcessGroup(options.store, options.group_rank, ranks, options.group_id, options.timeout)


class MrcProcessGroup(GroupMember):
    """Collectives and messages of a group."""

    def _divide(self, flats: Sequence[Tensor], op: Any) -> None:
        if operation(op)[1]:
            for flat in flats:
                flat.div_(self._size)

    # --- reductions -------------------------------------------------------------------------------------------------

    def _reduced(
        self,
        algorithm: Callable[..., Collective],
        flats: Sequence[Tensor],
        results: Sequence[Tensor],
        options: Any,
        finish: Callable[[], None],
        *root: int,
    ) -> MrcWork:
        """Reduce contiguous tensors in place, side by side; `finish` copies them to `results`."""

        def run(flat: Tensor, combine: Any) -> Callable[[MeshOperation], Collective]:
            return lambda out: algorithm(out, self._rank, self._size, raw(flat), flat.element_size(), combine, *root)

        def divide_and_finish() -> None:
            self._divide(flats, options.reduceOp)
            finish()

        runs = [run(flat, combiner(flat, options.reduceOp)) for flat in flats]
        return self._do(algorithm.__name__, runs, results, options, divide_and_finish)

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> MrcWork:
        """Reduce tensors over all ranks, in place."""
        options = _options(opts, c10d.AllreduceOptions, timeout)
        listed = _listed(tensors)
        targets = [Target(tensor) for tensor in listed]
        flats = [target.flat for target in targets]
        return self._reduced(algorithms.all_reduce, flats, listed, options, lambda: _finish(targets))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> MrcWork:
        """Reduce several tensors; those of one dtype are reduced as one."""
        options = _options(opts, c10d.AllreduceCoalescedOptions)
        listed = _listed(tensors)
        alike: dict[torch.dtype, list[Tensor]] = {}
        for tensor in listed:
            alike.setdefault(tensor.dtype, []).append(check(tensor))
        whole = {dtype: flattened(some) for dtype, some in alike.items()}

        def finish() -> None:
            for dtype, some in alike.items():
                parts = whole[dtype].split([one.numel() for one in some])
                for one, part in zip(some, parts, strict=True):
                    one.copy_(part.view(one.shape))

        return self._reduced(algorithms.all_reduce, list(whole.values()), listed, options, finish)

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None, timeout: timedelta | None = None) -> MrcWork:
        """Reduce tensors into the root's; other ranks keep theirs."""
        options = _options(opts, c10d.ReduceOptions, timeout)
        if op is not None:
            options.reduceOp = op
        listed = _listed(tensors)
        root = int(options.rootRank)
        targets = [Target(one if self._rank == root else check(one).clone()) for one in listed]
        flats = [target.flat for target in targets]
        return self._reduced(algorithms.reduce, flats, listed, options, lambda: _finish(targets), root)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> MrcWork:
        """Reduce lists with one tensor per rank; each rank gets its own."""
        options = _options(opts, c10d.ReduceScatterOptions)
        if isinstance(outputs, Tensor):
            outputs, inputs = [outputs], [inputs]
        targets = [Target(output) for output in outputs]
        flats = []
        for output, parts in zip(outputs, inputs, strict=True):
            self._per_rank(parts, "reduce_scatter")
            if parts[self._rank].numel() != output.numel() or any(one.dtype != output.dtype for one in parts):
                raise ValueError("reduce_scatter: the output differs in size or dtype from this rank's input")
            flats.append((flattened(parts), [one.numel() for one in parts]))
        return self._reduce_scatter(targets, flats, options, outputs)

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> MrcWork:
        """Reduce a tensor that has the ranks' parts in a row."""
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> MrcWork:
        """Reduce several tensors that have the ranks' parts in a row."""
        options = _options(opts, c10d.ReduceScatterOptions)
        flats = []
        for output, given in zip(outputs, inputs, strict=True):
            if given.numel() != output.numel() * self._size or given.dtype != output.dtype:
                raise ValueError(
                    f"reduce_scatter: the input has {given.numel()} elements of {given.dtype}; the output's"
                    f" {output.numel()} of {output.dtype} on {self._size} ranks make {output.numel() * self._size}"
                )
            flats.append((source(given).clone(), [output.numel()] * self._size))
        return self._reduce_scatter([Target(one) for one in outputs], flats, options, list(outputs))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter(
        self, targets: Sequence[Target], flats: Sequence[tuple[Tensor, list[int]]], options: Any, results: Any
    ) -> MrcWork:
        runs = []
        mine: list[Tensor] = []
        for flat, counts in flats:
            ends = [sum(counts[:place]) for place in range(self._size + 1)]
            mine.append(flat[ends[self._rank] : ends[self._rank + 1]])
            runs.append(self._scatter_run(flat, ends, combiner(flat, options.reduceOp)))

        def finish() -> None:
            self._divide(mine, options.reduceOp)
            for target, part in zip(targets, mine, strict=True):
                target.flat.copy_(part)
            _finish(targets)

        return self._do("reduce_scatter", runs, results, options, finish)

    def _scatter_run(self, flat: Tensor, ends: list[int], combine: Any) -> Callable[[MeshOperation], Collective]:
        item = flat.element_size()
        spans = [(a * item, b * item) for a, b in itertools.pairwise(ends)]
        return lambda out: algorithms.reduce_scatter(out, self._rank, self._size, raw(flat), spans, item, combine)

    # --- one to all, all to one -------------------------------------------------------------------------------------

    def broadcast(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> MrcWork:
        """Send the root's tensors to all ranks."""
        options = _options(opts, c10d.BroadcastOptions, timeout)
        targets = [Target(tensor) for tensor in _listed(tensors)]
        root = int(options.rootRank)

        def run(target: Target) -> Callable[[MeshOperation], Collective]:
            return lambda out: algorithms.broadcast(out, self._rank, self._size, target.raw, root)

        runs = [run(target) for target in targets]
        return self._do("broadcast", runs, _listed(tensors), options, lambda: _finish(targets))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None) -> MrcWork:
        """Collect one tensor of every rank at the root."""
        if isinstance(opts, int):
            outputs, inputs = [outputs] if outputs else [], [inputs]
        options = _options(opts, c10d.GatherOptions, timeout)
        root = int(options.rootRank)
        own = raw(source(_listed(inputs)[0]))
        targets: list[Target] = []
        if self._rank == root:
            self._per_rank(outputs[0], "gather")
            targets = [Target(one) for one in outputs[0]]
        parts = [target.raw for target in targets]
        return self._do(
            "gather", [lambda out: algorithms.gather(out, self._rank, parts, own, root)],
            outputs[0] if targets else [], options, lambda: _finish(targets),
        )  # fmt: skip

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None) -> MrcWork:
        """Send each rank its tensor of the root's list."""
        if isinstance(opts, int):
            inputs = [inputs] if inputs else []
        options = _options(opts, c10d.ScatterOptions, timeout)
        root = int(options.rootRank)
        target = Target(_listed(outputs)[0])
        parts: list[memoryview] = []
        if self._rank == root:
            self._per_rank(inputs[0], "scatter")
            parts = [raw(source(one)) for one in inputs[0]]
        return self._do(
            "scatter", [lambda out: algorithms.scatter(out, self._rank, parts, target.raw, root)],
            _listed(outputs), options, target.finish,
        )  # fmt: skip

    # --- all to all -------------------------------------------------------------------------------------------------

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: timedelta | None = None) -> MrcWork:
        """Collect one tensor of every rank on all ranks, as lists."""
        options = _options(opts, c10d.AllgatherOptions, timeout)
        if isinstance(inputs, Tensor):
            outputs, inputs = [outputs], [inputs]
        targets, runs = [], []
        for output, given in zip(outputs, inputs, strict=True):
            self._per_rank(output, "all_gather")
            some = [Target(one) for one in output]
            targets += some
            runs.append(self._gather_run([one.raw for one in some], given))
        return self._do("all_gather", runs, outputs, options, lambda: _finish(targets))

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> MrcWork:
        """Collect tensors of every rank: a list per rank with one tensor per input."""
        by_input = [[output[place] for output in outputs] for place in range(len(inputs))]
        return self.allgather(by_input, inputs, opts)

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> MrcWork:
        """Collect tensors of all ranks into one, in the order of the ranks."""
        return self.all_gather_single_coalesced([output], [given], opts)

    def all_gather_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> MrcWork:
        """Collect tensors of all ranks into one, for several inputs."""
        options = _options(opts, c10d.AllgatherOptions)
        targets, runs = [], []
        for output, given in zip(outputs, inputs, strict=True):
            if output.numel() != given.numel() * self._size or output.dtype != given.dtype:
                raise ValueError(
                    f"all_gather: the output has {output.numel()} elements of {output.dtype}; the input's"
                    f" {given.numel()} of {given.dtype} on {self._size} ranks make {given.numel() * self._size}"
                )
            target = Target(output)
            targets.append(target)
            whole, each = target.raw, given.numel() * given.element_size()
            parts = [whole[place * each : (place + 1) * each] for place in range(self._size)]
            runs.append(self._gather_run(parts, given))
        return self._do("all_gather", runs, list(outputs), options, lambda: _finish(targets))

    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _allgather_base = all_gather_single

    def _gather_run(self, parts: list[memoryview], given: Tensor) -> Callable[[MeshOperation], Collective]:
        own = raw(source(given))
        if len(own) != len(parts[self._rank]):
            raise ValueError(f"all_gather: the input has {len(own)} bytes, its place {len(parts[self._rank])}")
        parts[self._rank][:] = own
        return lambda out: algorithms.all_gather(out, self._rank, self._size, parts)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> MrcWork:
        """Send each rank its tensor of a list."""
        self._per_rank(inputs, "all_to_all")
        self._per_rank(outputs, "all_to_all")
        targets = [Target(one) for one in outputs]
        sends = [raw(source(one)) for one in inputs]
        return self._all_to_all(sends, [one.raw for one in targets], targets, outputs, opts)

    def all_to_all_single(
        self, output: Tensor, given: Tensor, output_sizes: Any, input_sizes: Any, opts: Any = None
    ) -> MrcWork:
        """Send each rank its part of one tensor, cut along its first dimension."""
        target, flat = Target(output), source(given)
        sends = self._cut(raw(flat), given, list(input_sizes or ()))
        receives = self._cut(target.raw, output, list(output_sizes or ()))
        return self._all_to_all(sends, receives, [target], output, opts)

    alltoall_base = all_to_all_single

    def _cut(self, whole: memoryview, tensor: Tensor, sizes: list[int]) -> list[memoryview]:
        rows = tensor.shape[0] if tensor.dim() else 1
        if not sizes:
            if rows % self._size:
                raise RuntimeError(f"all_to_all: {rows} rows do not divide by {self._size} ranks; give split sizes")
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows:
            raise RuntimeError(f"all_to_all: split sizes {sizes} do not cut {rows} rows for {self._size} ranks")
        each = len(whole) // rows if rows else 0
        ends = [sum(sizes[:place]) * each for place in range(self._size + 1)]
        return [whole[a:b] for a, b in itertools.pairwise(ends)]

    def _all_to_all(
        self, sends: list[memoryview], receives: list[memoryview], targets: list[Target], results: Any, opts: Any
    ) -> MrcWork:
        options = _options(opts, c10d.AllToAllOptions)
        if len(sends[self._rank]) != len(receives[self._rank]):
            raise RuntimeError("all_to_all: this rank's part for itself has another size in the output")
        return self._do(
            "all_to_all", [lambda out: algorithms.all_to_all(out, self._rank, self._size, sends, receives)],
            results if isinstance(results, list) else [results], options, lambda: _finish(targets),
        )  # fmt: skip

    def barrier(self, opts: Any = None) -> MrcWork:
        """Return once all ranks have called it."""
        options = _options(opts, c10d.BarrierOptions)
        return self._do("barrier", [lambda out: algorithms.barrier(out, self._rank, self._size)], [], options)

    # --- messages ---------------------------------------------------------------------------------------------------

    def send(self, tensors: Any, to: int, tag: int = 0) -> MrcWork:
        """Send a tensor to a rank."""
        view = raw(source(_listed(tensors)[0]))
        work = MrcWork(_listed(tensors))
        made = MeshOperation(
            self._mesh, self._group, "send", lambda out: algorithms.send(out, to, view), self._seconds, kind=MESSAGE,
            code=CODES.index("send"), tag=tag & _TAG_BITS, total=len(view), sends_to=to, on_end=work.operation_ended,
        )  # fmt: skip
        return self._begin(work, [made])

    def recv(self, tensors: Any, sender: int, tag: int = 0) -> MrcWork:
        """Receive a tensor from a rank."""
        target = Target(_listed(tensors)[0])
        work = MrcReceive(_listed(tensors), target.finish)
        view = target.raw

        def run(out: MeshOperation) -> Collective:
            assert out.source is not None
            return algorithms.receive(out.source, view)

        work.receive = MeshOperation(
            self._mesh, self._group, "recv", run, self._seconds, kind=MESSAGE, code=CODES.index("send"),
            tag=tag & _TAG_BITS, total=len(view), source=sender, on_end=work.operation_ended,
        )  # fmt: skip
        return self._begin(work, [work.receive])

    def recv_anysource(self, tensors: Any, tag: int = 0) -> MrcWork:
        """Receive a tensor from any rank, the first that sends one."""
        return self.recv(tensors, ANY, tag)

    def _per_rank(self, tensors: Sequence[Tensor], name: str) -> None:
        if len(tensors) != self._size:
            raise ValueError(f"{name}: a list of {len(tensors)} tensors, and the group has {self._size} ranks")


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _finish(targets: Sequence[Target]) -> None:
    for target in targets:
        target.finish()


def _options(given: Any, kind: Callable[[], Any], timeout: timedelta | None = None) -> Any:
    """Return the options of a collective, also where only a root or a ReduceOp was given."""
    made = kind() if given is None or not hasattr(given, "timeout") else given
    if isinstance(given, int):
        made.rootRank = given
    elif given is not None and made is not given:
        made.reduceOp = given
    if timeout is not None:
        made.timeout = timeout
    return made
