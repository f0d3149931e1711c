"""Queue depths of a fabric's switch ports, and the switches' lateness, sampled while packets flow.

The data plane writes the depth that a packet left behind into the register `queue_depths`, one cell per port, so that a
port whose queue ran empty reads 0. The query of a target is a `DepthQuery` (see `targets`). All switches are queried at
once, over connections that stay open, and one that is dead or frozen is not waited for a second time.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

REGISTER = "queue_depths"  # of p4src, by egress port
TIMEOUT = 0.05  # seconds for all responses together; each needs some hundred microseconds
_READ_BYTES = 1 << 16

Depths = dict[int, int]  # port number → packets in its data queue


class DepthReply(NamedTuple):
    """Report of a switch: depths, and seconds that it was late at most since its last report (None: cannot tell).

    A switch is late when a frame waits for it, or a packet stays in a queue beyond its time: for want of a CPU, as a
    rule. A process that was stopped on purpose is late, too.
    """

    depths: Depths
    late: float | None = None


@dataclass(frozen=True)
class DepthQuery:
    """Request for the depths of one switch.

    `connect`: a new connection; OSError if there is none. `request`: bytes to send. `read`: parses the
    bytes received so far; None while they are incomplete, ValueError where the switch refuses.
    """

    connect: Callable[[], socket.socket]
    request: bytes
    read: Callable[[bytes], DepthReply | None]


class QueueDepths:
    """Sampler of the switches of a running fabric. Not thread-safe."""

    def __init__(self, queries: Mapping[str, DepthQuery]) -> None:
        self._selector = selectors.DefaultSelector()
        self._connections = [_DepthConnection(name, query, self._selector) for name, query in queries.items()]
        self.switches = tuple(queries)

    def sample(self) -> dict[str, DepthReply]:
        """Return the report of each switch that answered; takes TIMEOUT when a switch is unresponsive."""
        for key, _ in self._selector.select(0):
            key.data.take()  # a late response is not about now
        waiting = {connection for connection in self._connections if connection.ask()}
        found: dict[str, DepthReply] = {}
        deadline = time.monotonic() + TIMEOUT
        while waiting and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                connection: _DepthConnection = key.data
                reply = connection.take()
                if reply is not None and connection in waiting:
                    found[connection.name] = DepthReply(reply.depths, connection.take_late())
                if not connection.awaits_reply:
                    waiting.discard(connection)
        return found

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()
        self._selector.close()


class _DepthConnection:
    """One switch: its connection, if any, and the pending request."""

    def __init__(self, name: str, query: DepthQuery, selector: selectors.BaseSelector) -> None:
        self.name = name
        self.awaits_reply = False
        self._query, self._selector = query, selector
        self._socket: socket.socket | None = None
        self._answer = b""
        self._late: float | None = None  # the worst of answers that were not taken yet

    def ask(self) -> bool:
        """Send the request; False if one is pending, or the switch cannot be reached."""
        if self.awaits_reply:
            return False
        try:
            if self._socket is None:
                self._socket = self._query.connect()
                self._socket.setblocking(False)
                self._selector.register(self._socket, selectors.EVENT_READ, self)
            self._socket.sendall(self._query.request)
        except OSError:
            self.close()
            return False
        self.awaits_reply = True
        return True

    def take(self) -> DepthReply | None:
        """Return the report, once it is whole; reconnect next time to a switch that went away or refused."""
        if self._socket is None:
            return None
        try:
            data = self._socket.recv(_READ_BYTES)
            self._answer += data
            reply = self._query.read(self._answer) if data else None
        except BlockingIOError:
            return None
        except (OSError, ValueError):
            data, reply = b"", None
        if not data:
            self.close()
        elif reply is not None:
            self._answer, self.awaits_reply = b"", False
            if reply.late is not None:
                self._late = max(reply.late, self._late or 0.0)
        return reply

    def take_late(self) -> float | None:
        """Return the switch's worst lateness in seconds since the last call; None if it reports none."""
        late, self._late = self._late, None
        return late

    def close(self) -> None:
        """Give the connection up."""
        if self._socket is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._socket)
            self._socket.close()
        self._socket, self._answer, self.awaits_reply = None, b"", False
