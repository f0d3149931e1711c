"""Part of a workload on one host: the ends of its flows, the pattern that drives them, and their results."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mrclab.hosts.memory.memory import Access as FileAccess
from mrclab.hosts.memory.memory import Buffer, Memory
from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.memory import Access, MemoryRegion
from mrclab.hosts.rdma.timers import Timer
from mrclab.hosts.rdma.verbs import FULL_ACCESS, Verbs
from mrclab.hosts.transports import Endpoint
from mrclab.hosts.workloads.channel import SHIFT, ChannelSender, Receiver, SentMessage, Slots, content, shared, touched
from mrclab.hosts.workloads.digests import SharedDigests
from mrclab.hosts.workloads.graph import GraphRun, RankProgram
from mrclab.hosts.workloads.payload import OUTSTANDING, Payload, RingPayload, RoundPayload
from mrclab.hosts.workloads.schedules import RECV, SEND, Collective, Op, ScheduleBuilder, chunk, schedule
from mrclab.hosts.workloads.span import Span
from mrclab.hosts.workloads.specs import FlowSpec, WorkloadSpec
from mrclab.hosts.workloads.stream import StreamSender

_BATCH = 64  # messages in one record
Record = dict[str, Any]


class Workload:
    """Ends and pattern. `record` writes history and publishes."""

    def __init__(
        self,
        name: str,
        spec: WorkloadSpec,
        transport: Endpoint,
        memory: Memory,
        cq: int,
        record: Callable[[Record], Any],
        shared_digests: SharedDigests | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self._is_job = spec.kind == "graph"
        self._is_ring = spec.kind == "ring"
        self._is_graph = spec.kind in {"graph", "rounds", "ring"}
        self.slots = self._layout(spec)
        self.senders: dict[str, ChannelSender] = {}
        self.receivers: dict[str, Receiver] = {}
        self.by_qp: dict[int, ChannelSender | Receiver] = {}
        self._verbs: Verbs[Any] = transport.verbs
        self._timers = transport.timers
        self._memory = memory
        self._cq = cq
        self._record = record
        self._shared_digests = None if self._is_ring else shared_digests  # a ring changes what it has sent
        self._regions: list[MemoryRegion] = []
        self._files: list[Buffer] = []
        self._source = bytearray()
        self._own: MemoryRegion | None = None
        self._streams: dict[str, StreamSender] = {}
        self._flows: dict[str, FlowSpec] = {}
        self._starts: list[Timer] = []  # of all, and of streams that begin after the others
        self._waiting: set[str] = set()  # streams that begin with `start_flows`
        self._graph: GraphRun | None = None
        self._payload = Payload()
        self._messages: dict[str, list[tuple[float, float, int]]] = {}
        self._failed: set[str] = set()

    # --- set-up -----------------------------------------------------------------------------------

    def _layout(self, spec: WorkloadSpec) -> Slots:
        """Return the layout of messages in a receiver's region."""
        size = spec.size or 0
        if spec.kind == "ring":
            largest = max(chunk(size, spec.ranks, place)[1] for place in range(spec.ranks))
            return Slots(spec.ahead, largest, split=True)
        if spec.kind == "graph":
            return Slots(1, self._program.largest, split=True, digest=False)
        if spec.kind in {"write", "rounds"}:
            return Slots(1, size, split=True, digest=spec.kind == "rounds")
        return Slots(spec.depth, spec.message, split=False, digest=not spec.counted)

    def add(self, flow: FlowSpec, now: float) -> Record:
        """Make one end of a flow; return the data that its peer needs to connect."""
        self._flows[flow.name] = flow
        qps = [
            self._verbs.create_qp(flow.address or flow.peer, now, None, self._cq, self._cq, **flow.attributes)
            for _ in range(flow.qps)
        ]
        if flow.role == "send":
            memory = self._file(flow.path, "read") if flow.path else self._sent_from()
            sender = ChannelSender(self._verbs, flow.name, flow.peer, qps, self.slots, memory)
            self._share(sender, "send")
            self.senders[flow.name] = sender
            self.by_qp |= dict.fromkeys(qps, sender)
            return {"qps": sender.infos()}
        size = self.slots.count * self.slots.size
        if flow.path:
            memory = self._file(flow.path, "write")
        elif self._is_job:  # all received bytes may go to the same place
            memory = self._sent_from()
        else:
            memory = self._register(shared(size) if self.spec.counted else touched(size), FULL_ACCESS)
        length_of = None if self._is_job else self._length_of
        receiver = Receiver(self._verbs, flow.name, flow.peer, qps, self.slots, memory, length_of)
        self._share(receiver, "recv")
        self.receivers[flow.name] = receiver
        self.by_qp |= dict.fromkeys(qps, receiver)
        return {"qps": receiver.infos(), "region": receiver.info()}

    def _share(self, end: ChannelSender | Receiver, role: str) -> None:
        """Give an end the digests that it has in common with its peer, if that one is of this process."""
        if self._shared_digests is not None and self.slots.digest:
            end.digests = self._shared_digests.digests(self.name, end.name, role, len(end.qps))

    def connect(self, flow: str, remote: Mapping[str, Any], now: float) -> None:
        """Connect one end with its peer's, given the result of that one's `add`."""
        if flow in self.senders:
            self.senders[flow].connect(remote["qps"], now)
            self.senders[flow].aim(remote["region"])
        else:
            self.receivers[flow].connect(remote["qps"], now)
            self.receivers[flow].accept(now, self._in_flight(flow))

    def _in_flight(self, flow: str) -> int:
        """Return the most messages of a graph's flow in flight; 0 for other kinds, which have a slot for each."""
        if not self._is_job:
            return 0
        return min(OUTSTANDING, self._program.receives_from(self._flows[flow].rank))

    def _length_of(self, number: int) -> int:
        spec = self.spec
        if self._is_ring:
            return chunk(spec.size or 0, spec.ranks, spec.rank - 1 - number % (2 * (spec.ranks - 1)))[1]
        return self.slots.size

    def _file(self, path: str, access: FileAccess) -> MemoryRegion:
        buffer = self._memory.map(path, self.spec.size, access)
        self._files.append(buffer)
        region = self._register(buffer, FULL_ACCESS if access == "write" else Access(0))
        self._memory.watch(buffer, lambda: region.lose(path))
        return region

    def _sent_from(self) -> MemoryRegion:
        """Return the buffer that all flows of this host send from; of a ring, the two buffers that it reduces."""
        if self._own is None:
            spec, size = self.spec, self.spec.size or 0
            if spec.kind == "graph":
                self._own = self._register(shared(self._program.largest), FULL_ACCESS)
                return self._own
            if spec.counted:
                self._source = shared(spec.message + SHIFT)
            else:
                self._source = content(spec.seed, spec.message if spec.kind in {"stream", "pingpong"} else size)
            self._own = self._register(touched(2 * size) if self._is_ring else self._source, Access(0))
        return self._own

    def _register(self, buffer: Any, access: Access) -> MemoryRegion:
        region = self._verbs.reg_mr(buffer, access)
        self._regions.append(region)
        return region

    # --- run --------------------------------------------------------------------------------------

    def start(self, at: float, now: float) -> None:
        """Begin at a monotonic time, or at once where it is past."""
        if self._is_graph:
            self._make_graph().until = None if self.spec.duration is None else at + self.spec.duration
        else:
            self._make_streams()
        self._start(self._begin, max(at, now))

    def _start(self, begin: Callable[[float], None], at: float) -> None:
        self._starts.append(self._timers.timer(begin))
        self._starts[-1].arm(at)

    @property
    def _program(self) -> RankProgram:
        program = self.spec.program
        assert isinstance(program, RankProgram)
        return program

    def _make_graph(self) -> GraphRun:
        """Make the rank; before its start if a peer has begun, since received data must not be lost."""
        if self._graph is None:
            program, ranks = self._job() if self._is_job else self._ring() if self._is_ring else self._rounds()
            self._graph = GraphRun(
                program, self.spec.seed, {ranks[name]: end for name, end in self.senders.items()},
                {ranks[name]: end for name, end in self.receivers.items()}, self._timers, self._payload,
                program.steps if self._is_job else self.spec.iterations,
                self._sent if self._is_ring else None, self._step, self._graph_done,
            )  # fmt: skip
        return self._graph

    def _job(self) -> tuple[RankProgram, dict[str, int]]:
        return self._program, {name: flow.rank for name, flow in self._flows.items()}

    def _ring(self) -> tuple[RankProgram, dict[str, int]]:
        """Return the program of a ring, which all ranks share as if each were the first, and the places of peers."""
        size, count = self.spec.size or 0, self.spec.ranks
        self._payload = RingPayload(self._sent_from(), self._source, size, self.spec.rank, count)
        places = dict.fromkeys(self.senders, 1) | dict.fromkeys(self.receivers, count - 1)
        steps = schedule(Collective("all_reduce", "ring", size, in_order=True), count, 0)
        return RankProgram(steps, range(count), stride=2 * (count - 1)), places

    def _rounds(self) -> tuple[RankProgram, dict[str, int]]:
        """Return the program of rounds: a message to and from every peer, and the peers' places."""
        self._payload = RoundPayload()
        peers = list(dict.fromkeys(flow.peer for flow in self._flows.values()))
        places = {name: peers.index(flow.peer) for name, flow in self._flows.items()}
        builder = ScheduleBuilder()
        for kind, names in ((SEND, self.senders), (RECV, self.receivers)):
            for name in names:
                builder.add(Op(kind, self.spec.size or 0, peer=places[name]))
        return RankProgram(builder.schedule(), range(len(peers))), places

    def _make_streams(self) -> None:
        spec = self.spec
        message = max(1, (spec.size if spec.kind == "write" else spec.message) or 0)
        for name, sender in self.senders.items():
            size = self._flows[name].size or spec.size
            on_sent, on_done = functools.partial(self._sent, name), functools.partial(self._flow_done, name)
            self._streams[name] = StreamSender(sender, spec, message, size, self._timers, on_sent, on_done)
            if self._flows[name].start is None:
                self._waiting.add(name)

    def _patterns(self) -> list[Span]:
        return [*self._streams.values(), *([] if self._graph is None else [self._graph])]

    @property
    def running(self) -> bool:
        """True if it will begin, or has begun and not ended."""
        self._starts = [timer for timer in self._starts if timer.armed]  # fewer each time: there may be very many
        return bool(self._starts or self._waiting) or any(pattern.running for pattern in self._patterns())

    def _begin(self, now: float) -> None:
        if self._graph is not None:
            self._graph.start(now)
        for name, stream in self._streams.items():
            start = self._flows[name].start
            if start:
                self._start(stream.start, now + start)
            elif start is not None:
                stream.start(now)

    def start_flows(self, names: Sequence[str], now: float) -> None:
        """Begin streams that waited for it."""
        for name in names:
            if name in self._waiting:
                self._waiting.discard(name)
                self._streams[name].start(now)

    def stop(self, now: float) -> None:
        """Stop sending."""
        self._cancel()
        for pattern in self._patterns():
            if pattern.running:
                pattern.stop(now)

    def _cancel(self) -> None:
        """Cancel everything that has not begun."""
        for timer in self._starts:
            timer.cancel()
        self._waiting.clear()

    def take(self, completion: WorkCompletion, now: float) -> None:
        """Handle a completion of one of the QPs."""
        end = self.by_qp[completion.qp]
        if self._is_graph:
            graph = self._make_graph()
            if isinstance(end, ChannelSender):
                graph.sent(end, completion, now)
            else:
                graph.received(end, completion, now)
        elif isinstance(end, ChannelSender):
            sent = end.completed(completion)
            if end.name in self._streams:
                self._streams[end.name].completed(sent, now)
        else:
            end.arrived(completion, now)
            if self._flows[end.name].reports_arrival and end.bytes == self._flows[end.name].size:
                self._record({"kind": "flow.received", "traffic": self.name, "flow": end.name, "bytes": end.bytes})
        if end.error and end.name not in self._failed:
            self._failed.add(end.name)
            self._record({"kind": "flow.failed", "traffic": self.name, "flow": end.name, "error": end.error})

    @property
    def acked_bytes(self) -> int:
        """Acknowledged bytes so far, parts of messages included."""
        return sum(sender.acked_bytes() for sender in self.senders.values())

    # --- what it leaves behind --------------------------------------------------------------------

    def _sent(self, flow: str, message: SentMessage) -> None:
        batch = self._messages.setdefault(flow, [])
        batch.append((round(message.posted, 9), round(message.done, 9), message.length))
        if len(batch) >= _BATCH:
            self._write_messages(flow)

    def _write_messages(self, flow: str) -> None:
        done = self._messages.pop(flow, [])
        if done and self.spec.kind == "pingpong":
            rtts = [round(end - begin, 9) for begin, end, _ in done]
            self._record({"kind": "pingpong", "traffic": self.name, "flow": flow, "rtt": rtts})
        elif done:
            self._record({"kind": "messages", "traffic": self.name, "flow": flow, "done": done})

    def _flow_done(self, flow: str) -> None:
        self._write_messages(flow)
        stream = self._streams[flow]
        record = {"kind": "flow.done", "traffic": self.name, "flow": flow, "began": stream.began, "ended": stream.ended}
        self._record({**record, "bytes": stream.sender.bytes, "error": stream.sender.error})

    def _step(self, step: int, began: float, ended: float) -> None:
        assert self._graph is not None
        if self._is_job:
            record = {"kind": "training.step", "traffic": self.name, "rank": self._program.rank, "step": step}
            self._record({**record, "began": began, "ended": ended, "compute": round(self._graph.computed, 9)})
            return
        record = {"kind": "iteration", "traffic": self.name, "iteration": step, "began": began, "ended": ended}
        more = {"rests": True} if self._graph.idle else {}
        sha256 = self._payload.ended(step)
        self._record({**record, **more, **({"sha256": sha256} if sha256 else {})})

    def _graph_done(self) -> None:
        assert self._graph is not None
        whole = self._graph.began, self._graph.ended
        for name, sender in self.senders.items():
            self._write_messages(name)
            began, ended = self._graph.spans.get(name, whole) if self._is_job else whole
            record = {"kind": "flow.done", "traffic": self.name, "flow": name, "bytes": sender.bytes}
            self._record({**record, "began": began, "ended": ended, "error": sender.error})

    def results(self) -> Record:
        """Return the outcome of every flow's end here; its files then have all received bytes."""
        for buffer in self._files:
            self._memory.sync(buffer)
        ends: list[ChannelSender | Receiver] = [*self.senders.values(), *self.receivers.values()]
        return {
            end.name: {
                "role": "send" if isinstance(end, ChannelSender) else "recv",
                "bytes": end.bytes,
                "sha256": end.sha256(),
                "error": end.error,
            }
            for end in ends
        }

    def release(self, now: float) -> None:
        """Release QPs, regions and files."""
        self._cancel()
        for end in [*self.senders.values(), *self.receivers.values()]:
            end.release(now)
        for region in self._regions:
            self._verbs.dereg_mr(region.lkey)
        for buffer in self._files:
            self._memory.unmap(buffer)
