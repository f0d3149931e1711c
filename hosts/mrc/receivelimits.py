"""Receive limits of a host: memory speed, NIC buffer, number of bitmaps.

Public reports of MRC name the responses (NO_PKT_BUFFER, NO_BITMAP, the receiver's penalty and restore_cwnd), not
when to send them; docs/mrc-protocol.md §2.18 has the choices. Bytes are placed at once; those that a slower memory
would still have to take are modelled as a backlog that drains at its rate.
"""

from __future__ import annotations

from typing import Final

from mrclab.hosts.mrc.peers import NOMINAL_OVERHEAD
from mrclab.topo.config.nodeconfig import MPR_UNIT, NodeConfig

_PENALTY_FROM: Final = 0.5  # of the packet buffer: above this senders are slowed down
_RESTORE_BELOW: Final = 0.25  # of the packet buffer: below this senders may restore their windows
MAX_PENALTY: Final = 127
_MAX_MPR: Final = 255


class ReceiveLimits:
    """Receive limits of one host, shared by all its responders."""

    __slots__ = ("_at", "_bytes", "_capacity", "_rate", "_total", "_units", "receivers")

    def __init__(self, config: NodeConfig) -> None:
        section = config.transport
        packet = config.path_mtu + NOMINAL_OVERHEAD
        self._rate = section.memory_rate * packet  # bytes per second; 0: unlimited
        self._capacity = section.packet_buffer * packet
        self._bytes = 0.0  # waiting for the memory
        self._at = 0.0  # time of that backlog
        self._total = self._units = section.bitmap_units or None  # of 128 PSNs: total, and free; None: unlimited
        self.receivers = 0  # QPs with dynamic MPR that received something lately

    # --- packets for a slow memory ----------------------------------------------------------------

    def take(self, nominal: int, now: float) -> bool:
        """Add a packet to the buffer; return False if it is full."""
        if not self._rate:
            return True
        self._drain(now)
        if self._bytes + nominal > self._capacity:
            return False
        self._bytes += nominal
        return True

    def penalty(self, now: float) -> int:
        """Return the receiver's penalty, 0…127, for the current backlog."""
        if not self._rate:
            return 0
        self._drain(now)
        over = self._bytes / self._capacity - _PENALTY_FROM
        return max(0, int(MAX_PENALTY * over / (1 - _PENALTY_FROM)))

    def below_restore_level(self) -> bool:
        """Return True if the backlog is so small that senders need no penalty."""
        return self._bytes < _RESTORE_BELOW * self._capacity

    def _drain(self, now: float) -> None:
        self._bytes = max(0.0, self._bytes - (now - self._at) * self._rate)
        self._at = now

    # --- bitmaps ----------------------------------------------------------------------------------

    def take_bitmaps(self, units: int) -> bool:
        """Reserve a number of units of 128 PSNs; all or none."""
        if self._units is None:
            return True
        if units > self._units:
            return False
        self._units -= units
        return True

    def give_bitmaps(self, units: int) -> None:
        """Return units of bitmap memory to the host's pool."""
        if self._units is not None:
            self._units += units

    def share(self) -> int:
        """Return the MPR of each receiving QP with dynamic MPR: its own unit, and an equal share of the rest."""
        return _MAX_MPR if self._total is None else min(_MAX_MPR, 1 + self._total // max(1, self.receivers))


def receive_limits(config: NodeConfig) -> ReceiveLimits | None:
    """Return the limits of a host; None if it has none, so that nothing is counted."""
    section = config.transport
    return ReceiveLimits(config) if section.memory_rate or section.bitmap_units else None


def units_of(distance: int) -> int:
    """Return the units of bitmap beyond the first that a packet this far above the oldest gap needs."""
    return distance // MPR_UNIT
