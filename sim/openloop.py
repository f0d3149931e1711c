"""Open-loop traffic in virtual time: flows that begin at given times, whether or not earlier ones have finished.

A flow exists while it runs: its two QPs are made as it begins and destroyed when it is over, and its bytes are counted
and not kept. So memory grows with the flows in progress, and with a record for each finished one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mrclab.hosts.agent.host import RunningHost
from mrclab.hosts.rdma.verbs import FULL_ACCESS, MAX_QP
from mrclab.hosts.workloads.channel import REASONS, shared
from mrclab.sim.clock import Clock, ticks

CHUNK: Final = 4 << 20
"""Bytes of one write at most."""

_CQ_DEPTH: Final = 1 << 17
_REST_RTTS: Final = 8.0  # base RTTs for which a finished flow's QPs respond to packets still in flight

Arrival = tuple[float, str, str, int]
"""Seconds after the workload's begin, source, destination, bytes."""


@dataclass
class OpenFlow:
    """Flow in progress."""

    number: int
    source: str
    destination: str
    size: int
    began: float
    qp: int  # number at the source
    peer_qp: int  # number at the destination
    left: int  # writes without completion


class _OpenLoopHost:
    """State of one host: completion queue, memory, and flows by QP number."""

    def __init__(self, name: str, host: RunningHost) -> None:
        self.name = name
        self.host = host
        self.verbs: Any = host.transport.verbs
        self.address: str = host.transport.config.host.address
        self.cq: int = self.verbs.create_cq(_CQ_DEPTH)
        self.region = self.verbs.reg_mr(shared(CHUNK), FULL_ACCESS)
        self.flows: dict[int, OpenFlow] = {}
        self.poll_pending = False


class SimOpenLoop:
    """Driver of one workload. `host` returns a running host, or None; `done` takes each flow with its end."""

    def __init__(
        self,
        clock: Clock,
        host: Callable[[str], RunningHost | None],
        arrivals: Iterator[Arrival],
        attributes: dict[str, Any],
        done: Callable[[OpenFlow, float, str], None],
    ) -> None:
        self._clock = clock
        self._host = host
        self._arrivals = arrivals
        self._attributes = attributes
        self._done = done
        self._ends: dict[str, _OpenLoopHost] = {}
        self._began = 0
        self._next: Arrival | None = None
        self.begun = 0  # flows that began
        self.open = 0  # of them in progress
        self.over = False  # no more will begin, and none is in progress

    def start(self, at: float) -> None:
        """Begin the first flows."""
        self._began = self._clock.not_before(at)
        self._schedule()

    def stop(self) -> None:
        """Begin no more flows; abort those in progress."""
        self._next = None
        self._arrivals = iter(())
        for end in self._ends.values():
            for flow in list(end.flows.values()):
                self._finish(end, flow, self._clock.seconds, "it was aborted")
        self.over = True

    def _schedule(self) -> None:
        self._next = next(self._arrivals, None)
        if self._next is None:
            self.over = not self.open
            return
        self._clock.call_at(max(self._clock.now, self._began + ticks(self._next[0])), self._arrive)

    def _arrive(self, _argument: object) -> None:
        arrival = self._next
        if arrival is None:
            return  # it was stopped
        self._begin(arrival[1], arrival[2], arrival[3])
        self._schedule()

    def _end(self, name: str) -> _OpenLoopHost | None:
        host = self._host(name)
        if host is None:
            return None
        end = self._ends.get(name)
        if end is None or end.host is not host:
            end = self._ends[name] = _OpenLoopHost(name, host)
            made = end
            end.verbs.notify_cq(end.cq, lambda: self._note(made))
        return end

    def _begin(self, source: str, destination: str, size: int) -> None:
        self.begun += 1
        self.open += 1
        now = self._clock.seconds
        flow = OpenFlow(self.begun, source, destination, size, now, 0, 0, max(1, -(-size // CHUNK)))
        here, there = self._end(source), self._end(destination)
        if here is None or there is None:
            self._refuse(flow, _gone(source if here is None else destination))
            return
        one, other = here.verbs, there.verbs
        full = [name for name, verbs in ((source, one), (destination, other)) if len(verbs.qps) >= MAX_QP]
        if full:
            self._refuse(flow, f"{full[0]} has {MAX_QP} QPs, as many as a host can have")
            return
        flow.qp = one.create_qp(there.address, now, None, here.cq, here.cq, **self._attributes)
        flow.peer_qp = other.create_qp(here.address, now, None, there.cq, there.cq, **self._attributes)
        mine, theirs = one.local_info(flow.qp), other.local_info(flow.peer_qp)
        one.connect(flow.qp, theirs, now)
        other.connect(flow.peer_qp, mine, now)
        here.flows[flow.qp] = flow
        sent = 0
        for number in range(flow.left):
            length = min(CHUNK, size - sent)
            lkey, va, rkey = here.region.lkey, there.region.va, there.region.rkey
            one.post_send(flow.qp, number, "RDMA_WRITE", lkey, 0, length, va, rkey, None, now)
            sent += length
        self._serve(here)

    def _refuse(self, flow: OpenFlow, error: str) -> None:
        """End a flow that cannot begin."""
        self.open -= 1
        self._done(flow, flow.began, error)

    def lost(self, name: str) -> None:
        """End the flows of a host whose agent has ended."""
        for end in self._ends.values():
            for flow in list(end.flows.values()):
                if name in {flow.source, flow.destination}:
                    self._finish(end, flow, self._clock.seconds, _gone(name))
        self._ends.pop(name, None)

    def _serve(self, end: _OpenLoopHost) -> None:
        nic: Any = end.host.nic
        nic.serve()

    def _note(self, end: _OpenLoopHost) -> None:
        """Poll the completions once the notifier has returned."""
        if not end.poll_pending:
            end.poll_pending = True
            self._clock.call_at(self._clock.now, self._take, end)

    def _take(self, end: _OpenLoopHost) -> None:
        end.poll_pending = False
        for completion in end.verbs.poll_cq(end.cq, _CQ_DEPTH):
            flow = end.flows.get(completion.qp)
            if flow is None:
                continue
            flow.left -= 1
            if completion.status != "SUCCESS":
                self._finish(end, flow, completion.t, REASONS.get(completion.status, completion.status))
            elif not flow.left:
                self._finish(end, flow, completion.t, "")

    def _finish(self, end: _OpenLoopHost, flow: OpenFlow, at: float, error: str) -> None:
        del end.flows[flow.qp]
        self.open -= 1
        self._done(flow, at, error)
        rest = _REST_RTTS * end.verbs.qp(flow.qp).settings.base_rtt
        ends = (end, flow.qp), (self._ends.get(flow.destination), flow.peer_qp)
        self._clock.call_at(self._clock.now + ticks(rest), self._close, ends)
        if self._next is None and not self.open:
            self.over = True

    def _close(self, ends: tuple[tuple[_OpenLoopHost | None, int], ...]) -> None:
        """Destroy the QPs of a flow; those of an agent that has ended are gone."""
        for end, number in ends:
            if end is not None and self._ends.get(end.name) is end and number in end.verbs.qps:
                end.verbs.destroy_qp(number, self._clock.seconds)


def _gone(name: str) -> str:
    return f"the agent of {name} is down"
