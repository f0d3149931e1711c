"""In-band network telemetry (INT): written by each switch on a packet's path, and returned in its ACK.

In virtual time only: switches of the wire have none. The bytes are those of HPCC's header for paths of up to five hops
(Li et al., SIGCOMM 2019, §5).
"""

from __future__ import annotations

from typing import Final

BYTES: Final = 42
"""Header of a packet that collects telemetry, and of the ACK that returns it."""


class Hop:
    """Egress port as the packet left it: `rate` in bytes per second, `queue` and `sent` in bytes, `at` in seconds."""

    __slots__ = ("at", "port", "queue", "rate", "sent")

    def __init__(self, port: int, rate: float, queue: int, sent: int, at: float) -> None:
        self.port = port  # unique in the fabric
        self.rate = rate
        self.queue = queue  # behind the packet
        self.sent = sent  # since the port was made
        self.at = at
