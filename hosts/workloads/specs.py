"""Settings of a workload and of its flows on one host, as calls to its agent have them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class FlowSpec(BaseModel):
    """One end of a flow on this host."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    name: str  # NAME/h1>h3
    role: Literal["send", "recv"]
    peer: str  # the other host, by name or inner address
    address: str = ""  # its inner address, where `peer` is its name
    qps: int = Field(ge=1)
    attributes: dict[str, Any] = {}
    path: str | None = None  # file that a write reads or writes; else memory of the agent
    size: int | None = Field(default=None, ge=1)  # bytes of a stream, if they differ from the workload's
    start: float | None = Field(default=0.0, ge=0)  # seconds after the workload's start; None: started by `start_flows`
    rank: int = 0  # of the peer, in a graph
    reports_arrival: bool = False  # a receiver that writes `flow.received` after all `size` bytes


class WorkloadSpec(BaseModel):
    """Settings of a workload; which fields count depends on `kind`. Sizes in bytes, times in seconds."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    kind: Literal["write", "stream", "pingpong", "rounds", "ring", "graph"]
    size: int | None = Field(default=None, ge=0)
    message: int = Field(default=1, ge=1)
    duration: float | None = None
    depth: int = Field(default=1, ge=1)
    rate: float | None = None  # bytes per second
    iterations: int | None = Field(default=1, ge=1)  # of a collective; None: limited by `duration`
    rank: int = 0
    ranks: int = 1
    ahead: int = Field(default=4, ge=1)  # of a ring: most steps of a host without acknowledgement
    seed: str = ""  # of the contents, and of what a graph draws
    counted: bool = False  # of a stream: all flows of the process share their bytes, without digests
    program: Any = None  # of a graph: this rank's `RankProgram`; its bytes are counted
