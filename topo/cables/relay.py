"""Delay, jitter, reordering, duplication and seeded loss on one cable, in user space: a process between c1 and c2.

For kernels without netem, and for a feature that netem lacks: the same seed treats packet number n alike. The
cable's nftables rules send a direction's frames to a veth whose other end this process reads; it writes them, when
their time has come, into the far end. `python -m mrclab.topo.cables.relay` takes one JSON object (see `main`), says
`ready` when it listens, and on SIGTERM forwards the frames that it holds, prints its counts and how late it was, and
ends. Good for some thousand frames per second.
"""

import contextlib
import heapq
import json
import select
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass, field

from mrclab.topo.cables.impairment import Impairer, Impairment
from mrclab.topo.process.beat import Beat

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER = 16 << 20  # bytes
_MAX_FRAME = 65536


@dataclass
class _Direction:
    """One direction at work: where frames come from, where they go, and those that wait."""

    source: socket.socket
    target: socket.socket
    impairer: Impairer
    waiting: list[tuple[float, int, bytes]] = field(default_factory=list)
    number: int = 0

    def take(self) -> None:
        """Read the frames that have arrived."""
        while True:
            try:
                frame, (_, _, kind, _, _) = self.source.recvfrom(_MAX_FRAME)
            except BlockingIOError:
                return
            if kind != _PACKET_OUTGOING:
                for leaves in self.impairer.departures(time.monotonic()):
                    self.number += 1
                    heapq.heappush(self.waiting, (leaves, self.number, frame))

    def give(self) -> None:
        """Send frames that are due; one that the far end refuses (no carrier) is lost."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, frame = heapq.heappop(self.waiting)
            with contextlib.suppress(OSError):
                self.target.send(frame)
                self.impairer.counts.sent += 1


def main(argument: str) -> None:
    """Run until SIGTERM. `argument`: {"seed": …, "directions": [{"from": if, "to": if, "impairment": {…}}]}."""
    settings = json.loads(argument)
    directions = []
    for number, entry in enumerate(settings["directions"]):
        source, target = _packet_socket(entry["from"], _ETH_P_ALL), _packet_socket(entry["to"], 0)
        impairment = Impairment(**{**entry["impairment"], "lose": tuple(entry["impairment"]["lose"])})
        directions.append(_Direction(source, target, Impairer(impairment, f"{settings['seed']}/{number}")))
    wake, stop = socket.socketpair()
    signal.signal(signal.SIGTERM, lambda *_: stop.send(b"x"))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    beat = _relay(directions, wake)
    counts = [asdict(direction.impairer.counts) for direction in directions]
    sys.stdout.write(json.dumps({"counts": counts, **beat.take()}) + "\n")


def _relay(directions: list[_Direction], wake: socket.socket) -> Beat:
    sources = [direction.source for direction in directions]
    stopping, beat = False, Beat(time.monotonic())
    while not stopping or any(direction.waiting for direction in directions):
        due = min((direction.waiting[0][0] for direction in directions if direction.waiting), default=None)
        wait = beat.wait(due, time.monotonic())
        readable, _, _ = select.select(sources if stopping else [*sources, wake], [], [], wait)
        beat.woken(time.monotonic())
        stopping = stopping or wake in readable
        for direction in directions:
            direction.take()
            direction.give()
    return beat


def _packet_socket(interface: str, protocol: int) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    opened.bind((interface, protocol))
    opened.setblocking(False)
    return opened


if __name__ == "__main__":
    main(sys.argv[1])
