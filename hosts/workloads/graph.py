"""A rank of a job or of a collective: computes, sends and receives along a graph, step by step, from its completions.

An operation begins when all that it waits for has ended (or begun, where that is enough). A computation takes a
processor of the rank for its time, one after the other in the order in which they became ready. A send ends when it is
acknowledged, a receive when the message of its number is there, a collective when its own graph
(`mrclab.hosts.workloads.schedules`) is done. A step ends with its last operation, and the next one begins.

What messages carry is `mrclab.hosts.workloads.payload`'s. Messages bear the number of the step and of the operation, so
that they may come in any order, and before their receives. A receive that accepts several takes the one that came
first; of several such receives, the one that began first takes it.
"""

from __future__ import annotations

import functools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.timers import Timers
from mrclab.hosts.workloads.channel import ChannelSender, Receiver, SentMessage
from mrclab.hosts.workloads.payload import Payload
from mrclab.hosts.workloads.schedules import (
    COLLECTIVE,
    COMPUTE,
    RECV,
    SEND,
    Exchanged,
    Op,
    Schedule,
    exchanged,
    schedule,
)
from mrclab.hosts.workloads.span import Span

MAX_NUMBERS: Final = 1 << 32
"""Distinguishable messages of two ranks: an immediate has 32 bits."""

ANY: Final = -1
"""In place of a rank: a receive that takes what comes first."""


@dataclass(frozen=True, eq=False)
class RankProgram:
    """Steps of one rank; many ranks may share a schedule.

    `peers` are the ranks that sends and receives name by their place, `groups` the ranks of collectives. A step uses
    `stride` message numbers. Computations take up to a share of `jitter` longer.
    """

    schedule: Schedule
    peers: Sequence[int]
    groups: Sequence[tuple[Sequence[int], int]] = ()  # ranks, and the place of this one among them
    rank: int = 0
    steps: int = 1
    stride: int = 1
    largest: int = 1  # bytes of a message, at most
    jitter: float = 0.0

    def exchanged(self, kind: int) -> Iterator[Exchanged]:
        """Yield what the rank sends (SEND) or receives (RECV) in a step, operation by operation; ANY: from any rank."""
        for op in self.schedule.ops:
            if op.kind == kind:
                yield Exchanged(ANY if op.accepts else self.peers[op.peer], op.size, 1, op.size)
            elif op.collective is not None:
                ranks, mine = self.groups[op.peer]
                for one in exchanged(op.collective, len(ranks), mine, kind):
                    yield Exchanged(ranks[one.rank], one.size, one.messages, one.largest)

    def receives_from(self, rank: int) -> int:
        """Return the most messages that a rank sends to this one in all steps."""
        found = _received(self)
        return (found[rank] + found[ANY]) * self.steps


@functools.lru_cache(maxsize=1)  # all flows of a rank follow each other
def _received(program: RankProgram) -> Counter[int]:
    """Count the messages that a rank receives in a step, by the rank that sends them."""
    found: Counter[int] = Counter()
    for one in program.exchanged(RECV):
        found[one.rank] += one.messages
    return found


@dataclass
class _Live:
    """A running schedule: the step's own, or that of a collective, which `parent` waits for."""

    schedule: Schedule
    peers: Sequence[int]
    base: int  # number of its first message
    needs: list[int]
    left: int
    parent: _Live | None = None
    place: int = 0  # of the collective in its parent


@dataclass
class _Unit:
    """A processor of the rank, and its queue."""

    busy: bool = False
    waiting: deque[tuple[_Live, int]] = field(default_factory=deque)


def _accepts(live: _Live, place: int, number: int) -> bool:
    """Return True if a receive accepts the message of this number."""
    return (number - live.base) % MAX_NUMBERS in live.schedule.ops[place].accepts


class GraphRun(Span):
    """Drives one rank. `senders` and `receivers` are this host's ends by the rank of their peer; `seed` is jitter's.

    `on_sent(flow, message)` after every acknowledged message, `on_step(step, began, ended)` after each step, `on_done`
    after the last one, or a failure. It ends after `steps`; if that is None, at the time `until`: then it is idle after
    its last step, and does another one if a peer has begun it.
    """

    def __init__(
        self,
        program: RankProgram,
        seed: str,
        senders: Mapping[int, ChannelSender],
        receivers: Mapping[int, Receiver],
        timers: Timers,
        payload: Payload,
        steps: int | None,
        on_sent: Callable[[str, SentMessage], None] | None,
        on_step: Callable[[int, float, float], None],
        on_done: Callable[[], None],
    ) -> None:
        super().__init__(on_done)
        self.spans: dict[str, tuple[float, float]] = {}  # of every flow: first posted, last acknowledged
        self.computed = 0.0  # seconds of the step in which anything computed
        self._program = program
        self._payload = payload
        self._steps = steps
        self.until: float | None = None  # time on the transport's clock, seconds, known with the start
        self._idle_since: float | None = None
        self._on_sent = on_sent
        self._senders = senders
        self._rank_of = {end.name: rank for ends in (senders, receivers) for rank, end in ends.items()}
        self._timers = timers
        self._on_step = on_step
        self._step = 0
        self._step_began = self._busy_since = 0.0
        self._busy = 0  # processors that compute
        self._units: dict[int, _Unit] = {}
        self._draw = random.Random(seed) if program.jitter else None
        self._waiting: dict[tuple[int, int], tuple[_Live, int]] = {}  # receives, by rank and number
        self._choosing: list[tuple[_Live, int]] = []  # receives that accept several messages, in order of their begin
        self._early: dict[tuple[int, int], None] = {}  # unexpected messages, in order of arrival
        self._sent: dict[tuple[int, int], tuple[_Live, int]] = {}  # sends without acknowledgement
        self._queued: dict[int, deque[tuple[_Live, int, int]]] = {}  # sends that wait, by rank: with their number
        self._ready: deque[tuple[_Live, int]] = deque()

    # --- from outside -----------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """True if its time is over, and it continues only if others do."""
        return self._idle_since is not None

    def start(self, now: float) -> None:
        """Begin the first step."""
        self.began = self._step_began = now
        if any(end.error for end in self._senders.values()):
            self._end(now)
            return
        self._begin_steps(now)

    @override
    def stop(self, now: float) -> None:
        """End if it is idle, or abort: hosts that wait for this one then never finish."""
        self._end(now if self._idle_since is None else self._idle_since)

    def sent(self, sender: ChannelSender, completion: WorkCompletion, now: float) -> None:
        """Handle a completion of a sender."""
        message = sender.completed(completion)
        if message is None:
            if sender.error and self.running:
                self._end(now)
            return
        sender.oldest()  # forgets finished messages
        began, _ = self.spans[sender.name]
        self.spans[sender.name] = began, message.done
        if self._on_sent is not None:
            self._on_sent(sender.name, message)
        if self.over:
            return
        rank = self._rank_of[sender.name]
        self._ended(*self._sent.pop((rank, message.number)), now)
        queued = self._queued.get(rank)
        while queued and self._payload.may_post(sender, queued[0][2]):
            self._post(rank, *queued.popleft(), now)
        self._work(now)

    def received(self, receiver: Receiver, completion: WorkCompletion, now: float) -> None:
        """Handle a completion of a receiver; also before the start, since a peer may have begun."""
        number = receiver.arrived(completion, now)
        if self.over:
            return
        if number is None:
            if receiver.error and self.running:
                self._end(now)
            return
        self._payload.take(receiver, number)
        key = self._rank_of[receiver.name], number
        found = self._waiting.pop(key, None) or self._taker(number)
        if found is not None:
            self._ended(*found, now)
            self._work(now)
            return
        self._early[key] = None
        if self._idle_since is not None:
            self._idle_since, self._step_began = None, now
            self._begin_steps(now)

    # --- the graph --------------------------------------------------------------------------------

    def _begin_steps(self, now: float) -> None:
        if not self._begin_step():
            self._step_over(now)
        self._work(now)

    def _begin_step(self) -> bool:
        program = self._program
        base = self._step * program.stride % MAX_NUMBERS
        self.computed = 0.0
        return self._begin(program.schedule, program.peers, base, None, 0)

    def _begin(self, what: Schedule, peers: Sequence[int], base: int, parent: _Live | None, place: int) -> bool:
        """Begin a schedule; return False if it is empty."""
        if not what.ops:
            return False
        live = _Live(what, peers, base, [op.needs for op in what.ops], len(what.ops), parent, place)
        self._ready.extend((live, root) for root in what.roots)
        return True

    def _work(self, now: float) -> None:
        """Begin all operations that are ready."""
        ready = self._ready
        while ready and not self.over:
            self._begin_op(*ready.popleft(), now)

    def _begin_op(self, live: _Live, place: int, now: float) -> None:
        op = live.schedule.ops[place]
        for after in op.begun:
            self._release(live, after)
        if op.kind == SEND:
            rank, number = live.peers[op.peer], (live.base + op.number) % MAX_NUMBERS
            if self._payload.may_post(self._senders[rank], number):
                self._post(rank, live, place, number, now)
            else:
                self._queued.setdefault(rank, deque()).append((live, place, number))
        elif op.kind == RECV and op.accepts:
            self._receive_any(live, place, now)
        elif op.kind == RECV:
            key = live.peers[op.peer], (live.base + op.number) % MAX_NUMBERS
            if key in self._early:
                del self._early[key]
                self._ended(live, place, now)
            else:
                self._waiting[key] = live, place
        elif op.kind == COMPUTE:
            self._compute(live, place, op, now)
        else:
            assert op.kind == COLLECTIVE
            assert op.collective is not None
            ranks, mine = self._program.groups[op.peer]
            what = schedule(op.collective, len(ranks), mine)
            if not self._begin(what, ranks, live.base + op.number, live, place):
                self._ended(live, place, now)

    def _taker(self, number: int) -> tuple[_Live, int] | None:
        """Return the first of the receives with several messages that accepts this one."""
        for at, (live, place) in enumerate(self._choosing):
            if _accepts(live, place, number):
                return self._choosing.pop(at)
        return None

    def _receive_any(self, live: _Live, place: int, now: float) -> None:
        """Begin a receive that accepts several messages."""
        for key in self._early:
            if _accepts(live, place, key[1]):
                del self._early[key]
                self._ended(live, place, now)
                return
        self._choosing.append((live, place))

    def _post(self, rank: int, live: _Live, place: int, number: int, now: float) -> None:
        sender = self._senders[rank]
        self.spans.setdefault(sender.name, (now, now))
        self._sent[rank, number] = live, place
        offset, length = self._payload.place(sender, number, live.schedule.ops[place].size)
        sender.post(number, length, offset, now)

    def _release(self, live: _Live, place: int) -> None:
        live.needs[place] -= 1
        if not live.needs[place]:
            self._ready.append((live, place))

    def _ended(self, live: _Live, place: int, now: float) -> None:
        """Handle the end of an operation; after the last one of a schedule, continue its parent."""
        while True:
            for after in live.schedule.ops[place].then:
                self._release(live, after)
            live.left -= 1
            if live.left:
                return
            if live.parent is None:
                self._step_over(now)
                return
            live, place = live.parent, live.place

    def _step_over(self, now: float) -> None:
        """End a step and begin the next one; all of them at once where the rank has nothing to do."""
        steps = self._steps
        while not self.over:
            last = self._step + 1 >= steps if steps is not None else self.until is not None and now >= self.until
            if last and steps is None and not self._early:  # no peer has begun another step
                self._idle_since = now
            self._on_step(self._step, self._step_began, now)
            self._step += 1
            self._step_began = now
            if last and steps is not None:
                self._end(now)
            elif self.idle or self._begin_step():
                return

    # --- computing --------------------------------------------------------------------------------

    def _compute(self, live: _Live, place: int, op: Op, now: float) -> None:
        if op.unit < 0:
            self._timers.timer(functools.partial(self._delayed, live, place)).arm(now + op.seconds)
            return
        unit = self._units.setdefault(op.unit, _Unit())
        if unit.busy:
            unit.waiting.append((live, place))
            return
        unit.busy = True
        if not self._busy:
            self._busy_since = now
        self._busy += 1
        seconds = op.seconds * (1 + self._program.jitter * self._draw.random()) if self._draw else op.seconds
        self._timers.timer(functools.partial(self._computed_one, unit, live, place)).arm(now + seconds)

    def _delayed(self, live: _Live, place: int, now: float) -> None:
        if not self.over:
            self._ended(live, place, now)
            self._work(now)

    def _computed_one(self, unit: _Unit, live: _Live, place: int, now: float) -> None:
        if self.over:
            return
        unit.busy = False
        self._busy -= 1
        if not self._busy:
            self.computed += now - self._busy_since
        if unit.waiting:
            following, there = unit.waiting.popleft()
            self._compute(following, there, following.schedule.ops[there], now)
        self._ended(live, place, now)
        self._work(now)
