"""The agent's operations on workloads.

A workload here is this host's part of a workload of the scenario. `prepare_workload` makes QPs and regions,
`connect_workload` joins them with the peers', `start_workload` starts it at a given time, `workload_status` returns its
results and `release_workload` releases everything. `workload.progress` goes to listeners only, all other events also
into the history (`mrclab.events.workloads`). A collective of limited duration `rests` once its time is over, until a
peer continues or `stop_workload` ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.transports import Endpoint
from mrclab.hosts.workloads.digests import SharedDigests
from mrclab.hosts.workloads.specs import FlowSpec, WorkloadSpec
from mrclab.hosts.workloads.workload import Workload
from mrclab.rpc.errors import RpcError

Result = dict[str, Any]
PROGRESS_S = 0.025
"""Interval of progress events, seconds, at a time scale of 1."""

_MAX_COMPLETIONS = 4096  # completions taken at once
_CQ_DEPTH = 1 << 17


class WorkloadOperations:
    """Methods without underscore are operations.

    `directory` maps host names to inner addresses. `record` writes history and publishes, `publish` only publishes.
    `shared_digests` are for hosts that share a process.
    """

    def __init__(
        self,
        transport: Endpoint,
        loop: Loop,
        memory: Memory,
        directory: Callable[[], Mapping[str, str]],
        record: Callable[[dict[str, Any]], Any],
        publish: Callable[[dict[str, Any]], Any],
        time_scale: float = 1.0,
        shared_digests: SharedDigests | None = None,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._memory = memory
        self._directory = directory
        self._record = record
        self._publish = publish
        self._shared_digests = shared_digests
        self._look_s = PROGRESS_S * time_scale
        self._workloads: dict[str, Workload] = {}
        self._by_qp: dict[int, Workload] = {}
        self._published: dict[str, int] = {}
        self._waiting = self._watching = False
        self._cq: int | None = None

    def prepare_workload(self, name: str, spec: dict[str, Any], flows: list[dict[str, Any]]) -> Result:
        """Make a workload's ends; return {flow: {qps, region?}} for the peers' `connect_workload`."""
        if name in self._workloads:
            raise RpcError("EEXIST", f"there is a workload {name!r} already; release it first")
        directory = self._directory()
        try:
            checked = WorkloadSpec.model_validate(spec)
            workload = Workload(
                name, checked, self._transport, self._memory, self._queue(), self._record, self._shared_digests
            )
            given = [FlowSpec.model_validate(flow) for flow in flows]
        except ValidationError as error:
            raise RpcError("EINVAL", f"workload {name}: {error}") from None
        ends = [flow.model_copy(update={"address": directory.get(flow.peer, flow.peer)}) for flow in given]
        self._workloads[name] = workload
        try:
            made = {flow.name: workload.add(flow, self._loop.now) for flow in ends}
        except (VerbsError, RpcError):
            self.release_workload(name)
            raise
        self._by_qp |= dict.fromkeys(workload.by_qp, workload)
        return {"flows": made}

    def connect_workload(self, name: str, flows: dict[str, Any]) -> None:
        """Connect every flow's end with its peer's."""
        workload = self._workload(name)
        for flow, remote in flows.items():
            workload.connect(flow, remote, self._loop.now)

    def start_workload(self, name: str, at: float) -> None:
        """Begin at a time of the host's clock."""
        self._workload(name).start(at, self._loop.now)
        if not self._watching:
            self._watching = True
            self._loop.until_done(self._look_s, self._publish_progress)

    def start_flows(self, name: str, flows: list[str]) -> None:
        """Begin flows without a start time."""
        self._workload(name).start_flows(flows, self._loop.now)

    def stop_workload(self, name: str) -> None:
        """Stop sending."""
        self._workload(name).stop(self._loop.now)

    def workload_status(self, name: str) -> Result:
        """Return {flows: {flow: {role, bytes, sha256, error}}, acked_bytes}."""
        workload = self._workload(name)
        return {"flows": workload.results(), "acked_bytes": workload.acked_bytes}

    def release_workload(self, name: str) -> None:
        """Release QPs and regions."""
        workload = self._workloads.pop(name, None)
        if workload is not None:
            self._published.pop(name, None)
            self._by_qp = {qp: owner for qp, owner in self._by_qp.items() if owner is not workload}
            workload.release(self._loop.now)

    # --- the loop ---------------------------------------------------------------------------------

    def _publish_progress(self, _now: float) -> bool:
        """Publish the progress of every workload; return True while one runs."""
        for name, workload in self._workloads.items():
            acked = workload.acked_bytes
            if acked != self._published.get(name, 0):
                self._published[name] = acked
                self._publish({"kind": "workload.progress", "traffic": name, "bytes": acked})
        self._watching = any(workload.running for workload in self._workloads.values())
        return self._watching

    def _queue(self) -> int:
        """The completion queue of all workloads."""
        if self._cq is None:
            self._cq = self._transport.verbs.create_cq(_CQ_DEPTH)
            self._transport.verbs.notify_cq(self._cq, self._note)
        return self._cq

    def _note(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.call_soon(self._take)

    def _take(self, now: float) -> None:
        """Pass completions to their workloads, including those that result."""
        self._waiting = False
        while found := self._transport.verbs.poll_cq(self._cq, _MAX_COMPLETIONS):
            for completion in found:
                workload = self._by_qp.get(completion.qp)
                if workload is not None:
                    workload.take(completion, now)

    def _workload(self, name: str) -> Workload:
        try:
            return self._workloads[name]
        except KeyError:
            known: Mapping[str, Workload] = self._workloads
            raise RpcError("EINVAL", f"there is no workload {name!r}; there are: {', '.join(known)}") from None
