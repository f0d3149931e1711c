"""Driver of one workload: sets its parts up in the agents, starts them, and collects their ends.

After the start the agents drive it by themselves, completion by completion. Their events are handled here, and at the
end the digests of both ends of every flow are compared.
"""

import functools
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrclab.events.traffic import FlowEnd, FlowEndpoints, TrafficEnd, TrafficStart
from mrclab.lab.errors import RunError, Unreachable
from mrclab.lab.run.world import GONE, PROGRESS_KINDS, World
from mrclab.lab.traffic.base import Flow, TrafficBase
from mrclab.topo import srv6

_MAX_ERRORS = 3  # errors kept in the workload's own record
_GOOD_STATES = frozenset({"GOOD", "SKIP", "STANDBY", "DENIED"})
_NOTHING_DONE: Mapping[str, Any] = {"bytes": 0, "sent_sha256": "", "received_sha256": "", "iterations": []}
_Iteration = dict[str, tuple[float, float, str]]  # host → began, ended, digest of the result


@dataclass
class FlowState:
    """State of one flow."""

    flow: Flow
    qps: dict[str, list[int]] = field(default_factory=dict)  # by host
    done: Mapping[str, Any] | None = None  # the sender's record of the end
    error: str = ""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Its QPs: the numbers at the source and at the destination."""
        return list(zip(*(self.qps.get(host, ()) for host in self.flow.hosts), strict=True))


class Running:
    """A workload from set-up to end: call `prepare`, `start`, `take` with every event, `finish` when `over`."""

    _is_reported = False  # True if senders report when each flow began

    def __init__(self, world: World, entry: TrafficBase, qps: int, seed: int) -> None:
        self.entry = entry
        self.name = entry.name
        self.began: float | None = None  # time on the world's clock
        self.ended: float | None = None
        self.ready = False
        self.outcome: dict[str, Any] = {}  # its end, as in the history
        self.hosts = entry.hosts_in(world.fabric, seed)
        self._world = world
        self._qps = entry.qps_of(qps)
        self._seed = seed
        self._flows = {flow.name: FlowState(flow) for flow in entry.flows(world.fabric, seed)}
        self._by_host: dict[str, list[FlowState]] = {host: [] for host in self.hosts}
        for state in self._flows.values():
            for host in dict.fromkeys(state.flow.hosts):
                self._by_host[host].append(state)
        self._taking_part = self.hosts  # those that have a part of it to do
        self._open = len(self._flows)  # flows that have neither ended nor failed
        self._failed = False
        self._acked: dict[str, int] = {}  # by sender
        self._acked_sum = 0
        self._iterations: dict[int, _Iteration] = {}
        self.stalled: dict[tuple[str, int], str] = {}  # why a QP of a host makes no progress
        self._idle: dict[int, set[str]] = {}  # iteration → hosts whose time was over after it

    # --- set-up -----------------------------------------------------------------------------------------------------

    def prepare(self, absent: Collection[str] = ()) -> None:
        """Make all QPs and regions and join them; RunError where an agent refuses. May be repeated before the start.

        Flows of `absent` hosts fail.
        """
        call = self._world.call
        infos: dict[str, Any] = {}
        for host in absent:
            self._lose(host, _down(host))
        self._taking_part = (
            [] if self.over else [h for h in self.hosts if self._unfailed_flows(h) or not self._by_host[h]]
        )
        for host in self._taking_part:
            call(host, "release_workload", name=self.name)
            attributes = {**self.entry.attributes, **self._pinned(host)}
            spec = {**self.entry.workload(self._world.fabric, host, self._qps), "seed": self._content(host)}
            infos[host] = call(host, "prepare_workload", name=self.name, spec=spec, flows=self._ends(host, attributes))[
                "flows"
            ]
        for host in self._taking_part:
            theirs = {s.flow.name: infos[_peer(s.flow, host)][s.flow.name] for s in self._unfailed_flows(host)}
            call(host, "connect_workload", name=self.name, flows=theirs)
        for name, state in self._flows.items():
            for host in state.flow.hosts if not state.error and infos else ():
                state.qps[host] = [int(end["qp"]) for end in infos[host][name]["qps"]]
        self.ready = True

    def _unfailed_flows(self, host: str) -> list[FlowState]:
        """Return the flows of a host that have not failed."""
        return [state for state in self._by_host[host] if not state.error]

    def _pinned(self, host: str) -> dict[str, Any]:
        """Make the EV profile of a sender with given paths on its agent, with those paths only."""
        paths = self.entry.paths
        if not paths or host not in self.senders:
            return {}
        call = self._world.call
        shape = {"mode": "EXPLICIT", "format": "STEV", "ev_count": len(paths), "ev_min_active": max(1, len(paths) // 4)}
        number = call(host, "create_ev_profile", **shape)["profile"]
        for index, path in enumerate(paths):
            value = srv6.ev(path.plane, path.uplink, srv6.ev_tag(index)).to_bytes(4, "big").hex()
            call(host, "replace_ev", profile=number, index=index, port=path.plane, value=value)
        for state in ("OFFLINE", "ONLINE"):
            call(host, "modify_ev_profile", profile=number, state=state)
        return {"ev_profile": number}

    def _ends(self, host: str, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the host's part of every flow that begins or ends there."""
        found = []
        for state in self._unfailed_flows(host):
            flow = state.flow
            sends = host == flow.source
            end = {"name": flow.name, "role": "send" if sends else "recv", "peer": _peer(flow, host), "qps": self._qps}
            own = {"attributes": dict(attributes if sends else self.entry.attributes), **self._end_fields(flow, sends)}
            found.append(end | own)
        return found

    def _end_fields(self, flow: Flow, sends: bool) -> dict[str, Any]:
        """Return the part of one end in its traffic."""
        return {}

    def _content(self, host: str) -> str:
        """Return the seed of a host's data."""
        return f"{self._seed}/{self.name}/{host}"

    # --- run --------------------------------------------------------------------------------------------------------

    def start(self, at: float) -> None:
        """Start all hosts at a time, which should be slightly ahead."""
        self.began = at
        for host in self._taking_part:
            self._call(host, "start_workload", name=self.name, at=at)
        pairs = {name: state.pairs for name, state in self._flows.items()}
        first = next(iter(self._flows.values()), None)  # a job may compute and send nothing
        self._record_start(at, pairs, {host: qps[0] for host, qps in first.qps.items()} if first else {})

    def _record_start(
        self, at: float, pairs: Mapping[str, Sequence[tuple[int, int]]], qps: dict[str, int] | None
    ) -> None:
        """Record the begin: `pairs` has the QPs at both ends of each flow, `qps` those of the first by host."""
        flows: list[FlowEndpoints] = [
            {
                "flow": name,
                "source": state.flow.source,
                "destination": state.flow.destination,
                "size": state.flow.size or 0,
                "qps": [{"source_qp": here, "destination_qp": there} for here, there in pairs.get(name, ())],
            }
            for name, state in self._flows.items()
        ]
        source, destination = (flows[0]["source"], flows[0]["destination"]) if flows else ("", "")
        self._world.record(
            TrafficStart(
                traffic=self.name, traffic_kind=self.entry.kind_name, source=source, destination=destination,
                size=self.size or 0, qps=qps, flows=flows,
            ),
            at,
        )  # fmt: skip

    def qps(self) -> Iterator[tuple[Flow, int, int]]:
        """Yield each pair of QPs: its flow, and the number at the source and at the destination."""
        return ((state.flow, here, there) for state in self._flows.values() for here, there in state.pairs)

    @functools.cached_property
    def size(self) -> int | None:
        """Bytes of all flows together; None where time ends them."""
        sizes = [state.flow.size for state in self._flows.values()]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def running(self) -> bool:
        """True if it has begun and not ended."""
        return self.began is not None and self.ended is None

    @property
    def over(self) -> bool:
        """True if every flow has ended; of a collective, one failed flow is enough, since all wait for it."""
        return not self._open or (self._failed and self.entry.together)

    @property
    def intact(self) -> bool:
        """True if it ended without an error and both ends have the same bytes, where these are kept."""
        end = self.outcome
        if not end or end.get("error"):
            return False
        if self._is_counted:
            return self._has_all
        return bool(end["sent_sha256"]) and end["sent_sha256"] == end["received_sha256"]

    @property
    def _is_counted(self) -> bool:
        """True if both ends count the bytes and take no digest of them."""
        return self.entry.is_counted

    @property
    def _has_all(self) -> bool:
        """True if as many bytes were acknowledged as were to be sent."""
        return self.size is None or self.outcome["bytes"] >= self.size

    @property
    def state(self) -> str:
        """Return `runs`, `stalled` and why, `intact`, or the error."""
        if self.ended is None:
            reasons = dict.fromkeys(self.stalled.values())
            return f"stalled: {'; '.join(reasons)}" if reasons else "runs"
        return str(self.outcome.get("error") or ("intact" if self.intact else "NOT INTACT"))

    def share(self, now: float) -> float:
        """Return the completed share, from 0 to 1; 1 only at its end."""
        if self.ended is not None:
            return 1.0
        if self.began is None or now <= self.began:
            return 0.0
        if self.entry.seconds is not None:
            return min((now - self.began) / self.entry.seconds, 0.9999)
        return min(self._acked_sum / self.size, 0.9999) if self.size else 0.0

    @property
    def acked(self) -> int:
        """Payload bytes that receivers have acknowledged, as last reported by the senders; in whole messages at the
        end."""
        return max(self._acked_sum, int(self.outcome.get("bytes", 0)))

    def dispatch(self, host: str, event: Mapping[str, Any]) -> None:
        """Handle any event of a host; those of other workloads are ignored."""
        if event["kind"] == GONE:
            self.lose(host, f"the agent of {host} ended")
        elif event["kind"] in PROGRESS_KINDS:
            self.take_progress(host, event)
        elif self.running and event.get("traffic") == self.name and self._is_own(host, event):
            self.take(host, event)

    def _is_own(self, host: str, event: Mapping[str, Any]) -> bool:
        """Return False for an event of a traffic that was stopped and had the same name."""
        flow = event.get("flow")
        return host in self._by_host and (flow is None or flow in self._flows)

    def take(self, host: str, event: Mapping[str, Any]) -> None:
        """Handle an event of a host's agent."""
        kind = event["kind"]
        if kind == "workload.progress":
            acked = int(event["bytes"])
            self._acked_sum += acked - self._acked.get(host, 0)
            self._acked[host] = acked
        elif kind == "iteration":
            times = float(event["began"]), float(event["ended"])
            number = int(event["iteration"])
            self._iterations.setdefault(number, {})[host] = (*times, str(event.get("sha256", "")))
            if event.get("rests"):
                self._on_idle(host, number)
        elif kind == "flow.done":
            self._close(self._flows[event["flow"]], _error_text(host, event["error"]), event)
        elif kind == "flow.failed":
            self._close(self._flows[event["flow"]], _error_text(host, event["error"]))

    def take_progress(self, host: str, event: Mapping[str, Any]) -> None:
        """Note that a QP of a host makes no progress, or resumes."""
        qp = int(event["qp"])
        if event["kind"] == "qp.resumed":
            self.stalled.pop((host, qp), None)
        elif qp in self._qps_at(host):
            self.stalled[host, qp] = str(event["reason"])

    def _qps_at(self, host: str) -> set[int]:
        """Numbers of this traffic's QPs at a host, which may have none of it."""
        return {number for state in self._by_host.get(host, ()) for number in state.qps.get(host, ())}

    def _close(self, state: FlowState, error: str, done: Mapping[str, Any] | None = None) -> None:
        """Note that a flow has ended, or failed."""
        was_open = not (state.done or state.error)
        state.done = done or state.done
        state.error = state.error or error
        self._failed = self._failed or bool(state.error)
        if was_open and (state.done or state.error):
            self._open -= 1

    def _on_idle(self, host: str, iteration: int) -> None:
        """Note that a host is idle after an iteration; once all are idle after the same one, end the workload."""
        idle = self._idle.setdefault(iteration, set())
        idle.add(host)
        if len(idle) == len(self.hosts):
            for name in self.hosts:
                self._call(name, "stop_workload", name=self.name)

    def _call(self, host: str, op: str, **arguments: Any) -> None:
        """Call a host; where its agent is down, its flows fail."""
        try:
            self._world.call(host, op, **arguments)
        except Unreachable:
            self.lose(host, _down(host))

    def lose(self, host: str, why: str) -> None:
        """A host's agent is gone: its flows have failed."""
        if host not in self._by_host:
            return
        self.ready = False
        if self.running:
            self._lose(host, why)

    def _lose(self, host: str, why: str) -> None:
        for state in self._unfailed_flows(host):
            self._close(state, why)

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self, error: str = "") -> None:
        """Stop it if it still runs, compare both ends of every flow, and record its end."""
        answers = {host: self._status(host) for host in self.hosts}
        times = [float(state.done["ended"]) for state in self._flows.values() if state.done]
        self.ended = max(times, default=self._world.now)
        ends = [self._record_flow(state, answers) for state in self._flows.values()]
        errors = [error] if error else list(dict.fromkeys(end.error for end in ends if end.error))
        expected, actual = self._reduced()
        rounds = self._whole_iterations()
        self._record_end(
            errors,
            bytes=sum(end.bytes for end in ends),
            sent_sha256=_joined([*(end.sent_sha256 or "" for end in ends), *expected]),
            received_sha256=_joined([*(end.received_sha256 or "" for end in ends), *actual]),
            iterations=[round(end - begin, 9) for begin, end in rounds],
            iteration_ends=[round(end, 9) for _, end in rounds],
        )

    def _record_end(self, errors: Sequence[str], **fields: Any) -> None:
        """Record the end of the workload, at `ended`."""
        failed = {"error": "; ".join(errors[:_MAX_ERRORS])} if errors else {}
        self.outcome = {**_NOTHING_DONE, **fields, **failed}
        self._world.record(TrafficEnd(traffic=self.name, **self.outcome), self.ended)

    def fail(self, error: str) -> None:
        """End it with an error, unrecorded: `finish` could not do its part."""
        self.outcome = {**_NOTHING_DONE, "error": error}
        self.ended = self._world.now

    def _status(self, host: str) -> dict[str, Any]:
        """Return the agent's status of every flow of a host; empty where it is gone."""
        try:
            if not self.over or self._failed:
                self._world.call(host, "stop_workload", name=self.name)
            return dict(self._world.call(host, "workload_status", name=self.name)["flows"])
        except RunError:
            return {}

    def _record_flow(self, state: FlowState, answers: Mapping[str, Mapping[str, Any]]) -> FlowEnd:
        """Record the end of a flow, given the status of each host; its bytes were acknowledged in whole messages."""
        flow, done = state.flow, state.done
        sender, receiver = (answers[host].get(flow.name, {}) for host in flow.hosts)
        at = float(done["ended"]) if done else self.ended or 0.0
        sent, received = self._digests(flow, sender.get("sha256", ""), receiver.get("sha256", ""))
        end = FlowEnd(
            traffic=self.name,
            flow=flow.name,
            bytes=int(sender.get("bytes", 0)),
            seconds=round(at - (at if self.began is None else self._flow_began(done)), 9),
            sent_sha256=sent,
            received_sha256=received,
            error=state.error,
            **self._counted(receiver),
        )
        self._world.record(end, at)
        return end

    def _digests(self, flow: Flow, sent: str, received: str) -> tuple[str, str]:
        """Return digests of sent and received bytes, given those that the agents took; empty if unknown."""
        return sent, received

    def _counted(self, receiver: Mapping[str, Any]) -> dict[str, Any]:
        """Return further fields of a flow's record if its bytes are only counted, given the receiver's status."""
        return {}

    def _flow_began(self, done: Mapping[str, Any] | None) -> float:
        """Return when a flow began, given its sender's record of the end: with its traffic, unless it reports that."""
        return float(done["began"]) if done and self._is_reported else self.began or 0.0

    def _whole_iterations(self) -> list[tuple[float, float]]:
        """Return the first begin and the last end of every iteration that all hosts ended."""
        return [
            (min(begin for begin, _, _ in parts.values()), max(end for _, end, _ in parts.values()))
            for _, parts in sorted(self._iterations.items())
            if len(parts) == len(self.hosts)
        ]

    def _reduced(self) -> tuple[list[str], list[str]]:
        """Return digests of the expected and the actual results of iterations, for a collective that reduces."""
        return [], []

    def abandon(self) -> None:
        """End what outlives an aborted run; agents end with the lab."""

    def bad_paths(self, rows: Mapping[str, list[dict[str, Any]]]) -> int:
        """Return the number of paths that its senders' QPs do not use now, given those of hosts."""
        own = {(s.flow.source, qp) for s in self._flows.values() if not s.error for qp in s.qps.get(s.flow.source, [])}
        return sum(
            (host, row["qp"]) in own and row["state"] not in _GOOD_STATES
            for host, paths in rows.items()
            for row in paths
        )

    @functools.cached_property
    def senders(self) -> set[str]:
        """Hosts that send."""
        return {state.flow.source for state in self._flows.values()}


def _peer(flow: Flow, host: str) -> str:
    return flow.destination if host == flow.source else flow.source


def _down(host: str) -> str:
    return f"the agent of {host} is down"


def _error_text(host: str, error: str) -> str:
    return f"{host}: {error}" if error else ""


def _joined(digests: list[str]) -> str:
    """Return one digest for many; itself for one, and empty if one is missing."""
    if not all(digests):
        return ""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
