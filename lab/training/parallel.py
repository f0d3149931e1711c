"""A model trained in parallel, as graphs: data, tensor, pipeline and expert parallelism (see docs/training.md).

Ranks are numbered as Megatron numbers them: tensor first, then data, then pipeline. Experts spread over ranks that
follow each other in data parallelism. Every stage of the pipeline has one graph, which all its ranks share; it does its
micro-batches in the order 1F1B (Narayanan et al. 2021). Collectives of one group follow each other, as on a stream of
NCCL's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from mrclab.hosts.workloads.graph import RankProgram
from mrclab.hosts.workloads.schedules import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    Collective,
    Op,
    Schedule,
    ScheduleBuilder,
    span,
)
from mrclab.lab.training.job import JobError, TrainingJob

DELAY = -1
"""The unit of delays that need no processor."""

_TENSOR, _DATA, _EXPERT = range(3)
_BEFORE, _BEHIND = range(2)  # a rank's peers in the pipeline


@dataclass(frozen=True)
class ParallelPlan:
    """A model and its parallelism. Bytes and seconds; `forward`, `backward`: of a layer and micro-batch on one rank."""

    data: int
    tensor: int
    pipeline: int
    expert: int
    layers: int
    gradients: int  # bytes of a layer's gradients on one rank
    parameters: int  # bytes of a layer's parameters on one rank
    micro_batches: int
    bucket: int
    forward: float
    backward: float
    overlap: Literal["ddp", "fsdp", "none"]
    algorithm: str
    activations: int  # bytes of a micro-batch between stages, and of what tensor parallelism reduces
    tokens: int  # bytes of a micro-batch that a rank sends to experts
    skew: float
    server: int
    server_rate: float  # bytes per second
    optimizer: float

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.data * self.tensor * self.pipeline

    def groups(self, rank: int) -> tuple[range, range, range]:
        """Ranks that share tensor, data and expert parallelism with one."""
        per_stage = self.data * self.tensor
        copy, place = divmod(rank % per_stage, self.tensor)
        first = rank - rank % per_stage
        experts = first + copy // self.expert * self.expert * self.tensor + place
        return (
            range(first + copy * self.tensor, first + (copy + 1) * self.tensor),
            range(first + place, first + per_stage, self.tensor),
            range(experts, experts + self.expert * self.tensor, self.tensor),
        )

    def of_server(self, stage: int, group: int) -> int:
        """Return how many ranks of a stage's groups share a server; JobError where not the same everywhere."""
        if self.algorithm != "hierarchical":
            return 1
        per_stage = self.data * self.tensor
        every = {self.groups(rank)[group] for rank in range(stage * per_stage, (stage + 1) * per_stage)}
        counts = {count for ranks in every for count in Counter(rank // self.server for rank in ranks).values()}
        if len(counts) > 1:
            name, degree = ("tensor", self.tensor) if group == _TENSOR else ("data", self.data)
            raise JobError(f"{name} parallelism {degree} does not fill servers of {self.server}; change server")
        return counts.pop()


class _Numbers:
    """Message numbers: each site in the job's graphs has its own, the same at both ends."""

    def __init__(self) -> None:
        self.used = 0
        self._of: dict[tuple[object, ...], int] = {}

    def of(self, count: int, *site: object) -> int:
        """Return the first of the numbers of a site."""
        if site not in self._of:
            self._of[site] = self.used
            self.used += count
        return self._of[site]


def one_f_one_b(stage: int, stages: int, micro_batches: int) -> list[tuple[bool, int]]:
    """(forward, micro-batch) in the order in which a stage works on them."""
    warm = min(micro_batches, stages - stage - 1)
    order = [(True, number) for number in range(warm)]
    for number in range(micro_batches - warm):
        order += [(True, warm + number), (False, number)]
    return order + [(False, number) for number in range(micro_batches - warm, micro_batches)]


class _Stage:
    """Builds the graph of one stage of the pipeline."""

    def __init__(self, plan: ParallelPlan, stage: int, numbers: _Numbers) -> None:
        self._plan = plan
        self._stage = stage
        self._numbers = numbers
        self._builder = ScheduleBuilder()
        self._chain: list[int] = []  # what the next thing that the rank does waits for
        self._pending = 0.0  # seconds of computing that nothing has interrupted
        self._last: dict[int, int] = {}  # of each group, its last collective
        self._reductions: list[int] = []  # what the optimizer waits for
        first, behind = (plan.layers * place // plan.pipeline for place in (stage, stage + 1))
        self._layers = behind - first
        self._servers = {_TENSOR: plan.of_server(stage, _TENSOR), _DATA: plan.of_server(stage, _DATA)}

    def build(self) -> Schedule:
        """Return the graph of a step."""
        plan, stage = self._plan, self._stage
        for forward, number in one_f_one_b(stage, plan.pipeline, plan.micro_batches):
            if forward:
                self._receive(stage > 0, _BEFORE, "activations", stage, number)
                self._forward()
                self._send(stage < plan.pipeline - 1, _BEHIND, "activations", stage + 1, number)
            else:
                self._receive(stage < plan.pipeline - 1, _BEHIND, "gradients", stage, number)
                self._backward(last=number == plan.micro_batches - 1)
                self._send(stage > 0, _BEFORE, "gradients", stage - 1, number)
        self._flush()
        self._chain += self._reductions
        self._pending += plan.optimizer
        self._flush()
        return self._builder.schedule()

    # --- passes -----------------------------------------------------------------------------------

    def _forward(self) -> None:
        gathered = self._gather(None)
        for layer in range(self._layers):
            gathered = self._with_parameters(gathered, layer)
            self._layer(self._plan.forward)

    def _backward(self, *, last: bool) -> None:
        plan, waiting = self._plan, 0
        gathered = self._gather(None)
        for layer in range(self._layers):
            gathered = self._with_parameters(gathered, layer)
            self._layer(plan.backward)
            if plan.overlap == "fsdp":
                self._reduce("reduce_scatter", plan.gradients)
            elif last:
                waiting += plan.gradients
                if plan.overlap == "ddp" and (waiting >= plan.bucket or layer == self._layers - 1):
                    self._reduce("all_reduce", waiting)
                    waiting = 0
        while waiting:
            size = min(waiting, plan.bucket)
            self._reduce("all_reduce", size)
            waiting -= size

    def _layer(self, seconds: float) -> None:
        """Half of a layer's computation, the communication of its ranks, and the same for the other half."""
        plan = self._plan
        for _ in range(2):
            self._pending += seconds / 2
            if plan.tensor > 1:
                if plan.server >= plan.tensor:
                    self._inside_the_server(plan.activations)
                else:
                    what = Collective("all_reduce", plan.algorithm, plan.activations, self._servers[_TENSOR])
                    self._collective(what, _TENSOR, plan.tensor)
            if plan.expert > 1:
                weights = tuple((place + 1) ** -plan.skew for place in range(plan.expert)) if plan.skew else ()
                exchange = Collective("all_to_all", plan.algorithm, plan.tokens, weights=weights)
                self._collective(exchange, _EXPERT, plan.expert)

    def _inside_the_server(self, size: int) -> None:
        self._flush()
        tensor = self._plan.tensor
        seconds = 2 * (tensor - 1) / tensor * size / self._plan.server_rate
        self._chain = [self._builder.add(Op(COMPUTE, seconds=seconds, unit=DELAY), self._chain)]

    # --- data parallelism -------------------------------------------------------------------------

    def _gather(self, layer: int | None) -> int | None:
        """Have the next layer's parameters gathered from now on; None where every rank has all."""
        if self._plan.overlap != "fsdp" or self._plan.data == 1:
            return None
        what = Collective("all_gather", self._plan.algorithm, self._plan.parameters)
        return self._collective(what, _DATA, self._plan.data, wait=False)

    def _with_parameters(self, gathered: int | None, layer: int) -> int | None:
        if gathered is None:
            return None
        self._flush()
        self._chain.append(gathered)
        return self._gather(layer + 1) if layer + 1 < self._layers else gathered

    def _reduce(self, kind: str, size: int) -> None:
        if self._plan.data > 1:
            what = Collective(kind, self._plan.algorithm, size, self._servers[_DATA])
            self._reductions.append(self._collective(what, _DATA, self._plan.data, wait=False))

    # --- operations -------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._pending:
            self._chain = [self._builder.add(Op(COMPUTE, seconds=self._pending), self._chain)]
            self._pending = 0.0

    def _collective(self, what: Collective, group: int, count: int, *, wait: bool = True) -> int:
        self._flush()
        number = self._numbers.of(span(what, count), self._stage, len(self._builder))
        after = [*self._chain, *([self._last[group]] if group in self._last else [])]
        made = self._builder.add(Op(COLLECTIVE, peer=group, number=number, collective=what), after)
        self._last[group] = made
        if wait:
            self._chain = [made]
        return made

    def _receive(self, needed: bool, peer: int, what: str, stage: int, number: int) -> None:
        if needed:
            self._flush()
            op = Op(RECV, self._plan.activations, peer=peer, number=self._numbers.of(1, what, stage, number))
            self._chain.append(self._builder.add(op))

    def _send(self, needed: bool, peer: int, what: str, stage: int, number: int) -> None:
        if needed:
            self._flush()
            op = Op(SEND, self._plan.activations, peer=peer, number=self._numbers.of(1, what, stage, number))
            self._builder.add(op, self._chain)


def job(plan: ParallelPlan) -> TrainingJob:
    """Return the graphs of a plan."""
    numbers = _Numbers()
    schedules = [_Stage(plan, stage, numbers).build() for stage in range(plan.pipeline)]
    per_stage = plan.data * plan.tensor

    def program(rank: int) -> RankProgram:
        groups = [(ranks, ranks.index(rank)) for ranks in plan.groups(rank)]
        return RankProgram(schedules[rank // per_stage], (rank - per_stage, rank + per_stage), groups, rank=rank)

    return TrainingJob(plan.ranks, max(1, numbers.used), program)
