"""Delay, jitter, reordering, duplication and seeded loss on one cable, in user space: a process between c1 and c2.

For kernels without netem, and for what netem cannot do: the same seed gives the same fate to packet number n. The
cable's nftables rules send a direction's frames to a veth whose other end this process reads; it writes them, when
their time has come, into the far end. `python -m mrclab.topo.cables.relay` takes one JSON object (see `main`), says
`ready` when it listens, and on SIGTERM lets out what it holds, prints its counts and ends.
Good for some thousand frames per second.
"""

import contextlib
import heapq
import json
import math
import random
import select
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass, field

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER = 16 << 20  # bytes
_MAX_FRAME = 65536


@dataclass(frozen=True)
class Impairment:
    """What happens to the frames of one direction. Times in seconds, probabilities 0…1.

    A frame waits `delay` plus a uniform draw from ±`jitter`. With `ordered` no frame overtakes another, as on a real
    wire; without, jitter reorders. `reorder`: share of frames that skip the wait and so overtake. `lose` are numbers
    of frames to lose, counted from 1 from the start; `loss` and `duplicate` are shares, drawn from the seed.
    """

    delay: float = 0.0
    jitter: float = 0.0
    ordered: bool = True
    reorder: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    lose: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("delay", "jitter"):
            if not 0 <= getattr(self, name) <= 60:
                raise ValueError(f"{name} is 0…60 seconds, not {getattr(self, name)}")
        for name in ("reorder", "loss", "duplicate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share of 0…1, not {getattr(self, name)}")
        if self.jitter > self.delay:
            raise ValueError(
                f"jitter {self.jitter} exceeds delay {self.delay}; a frame cannot arrive before it is sent"
            )
        if self.reorder and not self.delay:
            raise ValueError("reorder needs a delay that some frames skip")
        if any(number < 1 for number in self.lose):
            raise ValueError("frames to lose are counted from 1")


@dataclass
class Counts:
    """Frames of one direction."""

    received: int = 0
    lost: int = 0
    duplicated: int = 0
    overtook: int = 0
    sent: int = 0


class Fate:
    """Decides when each frame of one direction leaves. Pure: time comes in, draws come from the seed."""

    def __init__(self, impairment: Impairment, seed: str) -> None:
        self._impairment, self._random = impairment, random.Random(seed)
        self._lose = frozenset(impairment.lose)
        self._last = -math.inf
        self.counts = Counts()

    def departures(self, now: float) -> list[float]:
        """When the frame that arrives now leaves: once, twice or (lost) never. Always four draws per frame."""
        chosen, counts = self._impairment, self.counts
        lost, doubled, skips = (self._random.random() for _ in range(3))
        wait = chosen.delay + chosen.jitter * (2 * self._random.random() - 1)
        counts.received += 1
        if counts.received in self._lose or lost < chosen.loss:
            counts.lost += 1
            return []
        if skips < chosen.reorder:
            counts.overtook += 1
            leaves = now
        else:
            leaves = max(now + wait, self._last) if chosen.ordered else now + wait
            self._last = leaves
        if doubled < chosen.duplicate:
            counts.duplicated += 1
            return [leaves, leaves]
        return [leaves]


@dataclass
class _Direction:
    """One direction at work: where frames come from, where they go, and those that wait."""

    source: socket.socket
    target: socket.socket
    fate: Fate
    waiting: list[tuple[float, int, bytes]] = field(default_factory=list)
    number: int = 0

    def take(self) -> None:
        """Read what has arrived."""
        while True:
            try:
                frame, (_, _, kind, _, _) = self.source.recvfrom(_MAX_FRAME)
            except BlockingIOError:
                return
            if kind != _PACKET_OUTGOING:
                for leaves in self.fate.departures(time.monotonic()):
                    self.number += 1
                    heapq.heappush(self.waiting, (leaves, self.number, frame))

    def give(self) -> None:
        """Send what is due; a frame that the cable's far end refuses (no carrier) is lost there."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, frame = heapq.heappop(self.waiting)
            with contextlib.suppress(OSError):
                self.target.send(frame)
                self.fate.counts.sent += 1


def main(argument: str) -> None:
    """Run until SIGTERM. `argument`: {"seed": …, "directions": [{"from": if, "to": if, "impairment": {…}}]}."""
    wanted = json.loads(argument)
    directions = []
    for number, entry in enumerate(wanted["directions"]):
        source, target = _packet_socket(entry["from"], _ETH_P_ALL), _packet_socket(entry["to"], 0)
        impairment = Impairment(**{**entry["impairment"], "lose": tuple(entry["impairment"]["lose"])})
        directions.append(_Direction(source, target, Fate(impairment, f"{wanted['seed']}/{number}")))
    wake, stop = socket.socketpair()
    signal.signal(signal.SIGTERM, lambda *_: stop.send(b"x"))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    _relay(directions, wake)
    sys.stdout.write(json.dumps([asdict(direction.fate.counts) for direction in directions]) + "\n")


def _relay(directions: list[_Direction], wake: socket.socket) -> None:
    sources = [direction.source for direction in directions]
    stopping = False
    while not stopping or any(direction.waiting for direction in directions):
        due = min((direction.waiting[0][0] for direction in directions if direction.waiting), default=None)
        wait = None if due is None else max(0.0, due - time.monotonic())
        readable, _, _ = select.select(sources if stopping else [*sources, wake], [], [], wait)
        stopping = stopping or wake in readable
        for direction in directions:
            direction.take()
            direction.give()


def _packet_socket(interface: str, protocol: int) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    opened.bind((interface, protocol))
    opened.setblocking(False)
    return opened


if __name__ == "__main__":
    main(sys.argv[1])
