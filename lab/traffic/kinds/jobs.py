"""Traffic of kinds `training` and `trace`: jobs whose ranks compute, send and receive along a graph."""

import functools
import itertools
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.names import fabric_of
from mrclab.lab.scenario.units import Duration, Percent, Size
from mrclab.lab.traffic.base import TRAFFIC, Flow, TrafficBase
from mrclab.lab.traffic.families import HostList
from mrclab.lab.traffic.tracefiles import TraceField
from mrclab.lab.training import parallel
from mrclab.lab.training.job import TrainingJob
from mrclab.lab.training.parallel import ParallelPlan
from mrclab.topo.model import Fabric

Degree = Annotated[int, Field(ge=1, le=65_536)]
Algorithm = Literal["ring", "tree", "halving_doubling", "hierarchical"]
_MIN_MESSAGE = 64  # bytes: one for each QP that a flow can have


class JobTraffic(TrafficBase):
    """Common part of both kinds: ranks on hosts, and steps."""

    driver: ClassVar[str] = "mrclab.lab.traffic.running.jobs:RunningJob"
    keeps_messages: ClassVar[bool] = False
    worlds: ClassVar[frozenset[WorldName]] = frozenset({"sim"})

    placement: Literal["packed", "spread"] = Field(
        default="packed",
        description="packed: ranks on the hosts in their order; spread: round-robin over the T0 groups",
    )
    hosts: HostList = Field(default=["all"], validate_default=True, description="all, or a list in the order of ranks")
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = Field(default=1, description="how often the graph is run")
    jitter: Percent = Field(
        default=0.0,
        le=1,
        description="every computation takes up to this share longer, drawn from the seed for each rank",
    )

    @field_validator("hosts")
    @classmethod
    def _in_order(cls, hosts: list[str], info: ValidationInfo) -> list[str]:
        fabric = fabric_of(info)
        if info.data.get("placement") != "spread" or not fabric:
            return hosts
        groups: dict[int, list[str]] = {}
        for host in hosts:
            groups.setdefault(fabric.group(host), []).append(host)
        turns = itertools.zip_longest(*groups.values())
        return [host for turn in turns for host in turn if host is not None]

    @property
    def job(self) -> TrainingJob:
        """Return the graph; JobError if there is none."""
        raise NotImplementedError

    @property
    def placed(self) -> list[str]:
        """The host of every rank."""
        return self.hosts

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """Return one flow from each rank to each rank that it ever sends to."""
        return self._flows

    @functools.cached_property
    def _flows(self) -> list[Flow]:
        hosts, steps = self.placed, self.steps
        return [Flow(self.name, hosts[a], hosts[b], size * steps) for a, b, size in self.job.pairs]

    def hosts_in(self, fabric: Fabric, seed: int) -> list[str]:
        """Hosts of all ranks."""
        return self.placed

    @functools.cached_property
    def ranks(self) -> dict[str, int]:
        """The rank on each host."""
        return {host: rank for rank, host in enumerate(self.placed)}

    def workload(self, fabric: Fabric, host: str, qps: int) -> dict[str, Any]:
        """The graph of one rank."""
        rank = self.ranks[host]
        program = self.job.of_rank(rank, self.steps, self.jitter, _MIN_MESSAGE)
        return {"kind": "graph", "program": program}

    @property
    def together(self) -> bool:
        """True: a rank that fails leaves the others waiting."""
        return True

    def text(self, fabric: Fabric, qps: int) -> str:
        """Steps, ranks and nodes of the graph."""
        often = f"{self.steps} steps" if self.steps > 1 else "one step"
        first = self.placed[0]
        nodes = len(self.workload(fabric, first, qps)["program"].schedule.ops)
        return f"{often} of {len(self.placed)} ranks; {first} is rank 0, with {nodes} nodes in each"


@TRAFFIC.register
class Training(JobTraffic):
    """Training a model in parallel: compute, collectives and pipeline of every step. Virtual time only.

    Ranks are numbered tensor first, then data, then pipeline; each has a NIC of its own.
    """

    kind: Literal["training"]
    data: Degree | None = Field(default=None, description="data parallelism; default: as many as the hosts give")
    tensor: Degree = Field(default=1, description="tensor parallelism: ranks that share every layer")
    pipeline: Degree = Field(default=1, description="stages of the pipeline, scheduled by 1F1B")
    expert: Degree = Field(default=1, description="ranks of data parallelism over which experts are spread")
    layers: Annotated[int, Field(ge=1, le=10_000)] = Field(default=8, description="layers of the whole model")
    parameters: Annotated[float, Field(ge=1, le=1e14)] = Field(description="parameters of the whole model, e.g. 7.0e9")
    parameter_bytes: Annotated[int, Field(ge=1, le=8)] = Field(
        default=2, description="bytes of one parameter, gathered"
    )
    gradient_bytes: Annotated[int, Field(ge=1, le=8)] = Field(default=2, description="bytes of one gradient, reduced")
    micro_batches: Annotated[int, Field(ge=1, le=10_000)] = Field(default=1, description="micro-batches of a step")
    bucket: Annotated[Size, Field(ge=1)] = Field(
        default=25 << 20, description="bytes of gradients that one all-reduce takes"
    )
    overlap: Literal["ddp", "fsdp", "none"] = Field(
        default="ddp",
        description="ddp: buckets are reduced while backward goes on; fsdp: layers are gathered ahead, and scattered;"
        " none: reduced after backward",
    )
    algorithm: Algorithm = Field(default="ring", description="algorithm of the collectives that reduce")
    forward: Annotated[Duration, Field(ge=0)] | None = Field(
        default=None, description="time of a forward pass of a layer and micro-batch"
    )
    backward: Annotated[Duration, Field(ge=0)] | None = Field(
        default=None, description="time of a backward pass; default: twice forward"
    )
    forward_flops: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="floating-point operations of a layer and micro-batch on one rank, in place of forward",
    )
    backward_flops: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="the same of a backward pass; default: twice forward_flops"
    )
    gpu_flops: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="operations per second of a GPU, e.g. 4.0e14"
    )
    activations: Annotated[Size, Field(ge=1)] = Field(
        default=1 << 20, description="of a micro-batch, between stages and within tensor parallelism"
    )
    tokens: Annotated[Size, Field(ge=1)] = Field(
        default=1 << 20, description="of a micro-batch that a rank sends to experts, and gets back, in each layer"
    )
    skew: Annotated[float, Field(ge=0, le=8)] = Field(
        default=0.0, description="exponent of Zipf's law by which experts are popular; 0: all equally"
    )
    server: Degree = Field(
        default=1, description="ranks of a server, which tensor parallelism does not leave if it fits"
    )
    server_rate: Annotated[Size, Field(ge=1)] = Field(
        default=450 * 10**9, description="bytes per second of a GPU inside its server"
    )
    optimizer: Annotated[Duration, Field(ge=0)] = Field(
        default=0.0, description="time of the optimizer, after all gradients are reduced"
    )

    @model_validator(mode="after")
    def _fits(self) -> "Training":
        if self.hosts == ["all"]:
            return self  # without a fabric the number is unknown
        count, unit = len(self.hosts), self.tensor * self.pipeline
        if count % unit or (self.data is not None and self.data * unit != count):
            given = f"tensor {self.tensor} × pipeline {self.pipeline}" + (f" × data {self.data}" if self.data else "")
            raise ValueError(f"{given} does not make {count} hosts; name as many hosts, or change a degree")
        copies = count // unit
        if copies % self.expert:
            raise ValueError(f"expert {self.expert} does not divide data parallelism {copies}; give a divisor of it")
        if self.pipeline > self.layers:
            raise ValueError(f"{self.layers} layers do not fill {self.pipeline} stages; lower pipeline")
        if count < 2:
            raise ValueError(f"{self.name} needs at least two hosts")
        given_time, given_flops = self.forward is not None, self.forward_flops is not None
        if given_time == given_flops:
            raise ValueError(f"{self.name} needs either forward, such as 200us, or forward_flops with gpu_flops")
        if self.backward is not None and self.backward_flops is not None:
            raise ValueError(f"{self.name} has both backward and backward_flops; leave one out")
        for field in ("forward_flops", "backward_flops"):
            if self.gpu_flops is None and getattr(self, field) is not None:
                raise ValueError(f"{self.name} has {field} and no gpu_flops; add, for example, gpu_flops: 4.0e14")
        return self

    @model_validator(mode="after")
    def _can_be(self) -> "Training":
        if self.hosts != ["all"]:
            self.job.check(self.steps)  # JobError, which is a ValueError
        return self

    @functools.cached_property
    def plan(self) -> ParallelPlan:
        """The job in bytes and seconds of one rank."""
        rate = self.gpu_flops or 1.0
        forward = self.forward if self.forward is not None else (self.forward_flops or 0.0) / rate
        backward = self.backward
        if backward is None:
            backward = self.backward_flops / rate if self.backward_flops is not None else 2 * forward
        layer = self.parameters / self.layers / self.tensor
        return ParallelPlan(
            data=len(self.hosts) // (self.tensor * self.pipeline), tensor=self.tensor, pipeline=self.pipeline,
            expert=self.expert, layers=self.layers, gradients=max(1, round(layer * self.gradient_bytes)),
            parameters=max(1, round(layer * self.parameter_bytes)), micro_batches=self.micro_batches,
            bucket=self.bucket, forward=forward, backward=backward, overlap=self.overlap, algorithm=self.algorithm,
            activations=self.activations, tokens=self.tokens, skew=self.skew, server=self.server,
            server_rate=float(self.server_rate), optimizer=self.optimizer,
        )  # fmt: skip

    @property
    def longest_wait(self) -> tuple[float, str]:
        """The longest computation of a layer."""
        return max(self.plan.forward, self.plan.backward, self.optimizer), "a computation in it takes"

    @functools.cached_property
    def job(self) -> TrainingJob:
        """The graph of the plan."""
        return parallel.job(self.plan)


@TRAFFIC.register
class Trace(JobTraffic):
    """A recorded job: Chakra execution traces, one file per rank, or a schedule in GOAL. Virtual time only."""

    local_fields: ClassVar[frozenset[str]] = frozenset({"file"})
    kind: Literal["trace"]
    file: TraceField = Field(
        description="from the scenario's folder: Chakra's files without .RANK.et, e.g. traces/all_reduce; or a GOAL"
        " schedule, as text (.goal) or binary (.bin)"
    )
    algorithm: Algorithm = Field(default="ring", description="of the trace's collectives")
    cycle: Annotated[Duration, Field(gt=0)] = Field(default=1e-9, description="time of one unit of calc in GOAL")

    @model_validator(mode="after")
    def _enough_hosts(self) -> "Trace":
        ranks = self.file.ranks
        if self.hosts != ["all"] and len(self.hosts) < ranks:
            raise ValueError(
                f"{self.file} has {ranks} ranks and {self.name} {len(self.hosts)} hosts; name as many, or raise"
                " fabric.t0s or hosts_per_t0"
            )
        self.job.check(self.steps)  # JobError, which is a ValueError
        return self

    @functools.cached_property
    def job(self) -> TrainingJob:
        """The graph of the trace."""
        return self.file.job(self.algorithm, self.cycle)

    @property
    def longest_wait(self) -> tuple[float, str]:
        """The longest recorded computation."""
        return self.job.longest, "a computation in it takes"

    @property
    def placed(self) -> list[str]:
        """The host of every rank."""
        return self.hosts[: self.file.ranks]
