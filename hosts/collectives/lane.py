"""A lane to a peer: one QP, and at both ends a ring of slots that segments are written into, each with an immediate.

The sender copies a segment with its header into the next slot of its own ring and writes it to the same slot of the
peer's. A slot is used again when the NIC has completed the write and the peer has returned its credit, an immediate
without data, after reading the segment: no peer is sent more than it has room for, and a receive is always posted.
"""

from __future__ import annotations

import random
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mrclab.hosts.collectives.algorithms import SEGMENT
from mrclab.hosts.libmrc.mrc import CQ, MR, PD, QP, Address

if TYPE_CHECKING:
    from mrclab.hosts.collectives.operation import MeshOperation

SLOTS: Final = 32
HEADER: Final = struct.Struct("=BBHIIIIIQ")
"""Kind, code, flags, group, tag, sequence number, index of the segment, its bytes, bytes of the whole message."""

SLOT: Final = HEADER.size + SEGMENT
CREDIT: Final = 1 << 31  # in an immediate: the rest is the number of segments taken, modulo 2^24
_CREDIT_MASK: Final = 0xFFFFFF
_DEPTH: Final = 4 * SLOTS  # requests and receives of a QP
DATA, CONTROL, RECEIVE = 0, 1, 2  # low bits of a wr_id; the others are the lane's number


class Outgoing(NamedTuple):
    """A segment that waits for a slot; `operation` is None for notifications."""

    operation: MeshOperation | None
    header: bytes
    payload: memoryview


class Lane:
    """One QP of this rank and its slots. Call `pump` after `send`, and after completions."""

    def __init__(self, pd: PD, queue: CQ, number: int) -> None:
        self.number = number
        self._sends, self._receives = MR(pd, SLOTS * SLOT), MR(pd, SLOTS * SLOT)
        self._qp = QP(pd, queue, depth=_DEPTH, psn=random.getrandbits(24))  # last, so that it is closed first
        self._remote_addr = self._remote_rkey = 0
        self._posted = self._completed = self._credited = 0  # segments sent
        self._consumed = self._reported = 0  # segments received
        self.connected = False
        self._stalled_since = 0.0  # time since which the NIC has had requests and completed none
        self._controls = 0  # zero-length requests in flight
        self.waiting: deque[Outgoing] = deque()

    def describe(self) -> dict[str, Any]:
        """The record that the peer needs to connect, for JSON."""
        return {**self._qp.address.as_dict(), "addr": self._receives.addr, "rkey": self._receives.rkey}

    def connect(self, theirs: dict[str, Any], path_mtu: int) -> None:
        """Connect to the peer's lane."""
        self._remote_addr, self._remote_rkey = int(theirs["addr"]), int(theirs["rkey"])
        self._qp.connect(Address(theirs["gid"], theirs["qpn"], theirs["psn"]), path_mtu)
        for _ in range(_DEPTH):
            self._qp.receive(self.number << 2 | RECEIVE)
        self.connected = True

    # --- sending ----------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Post waiting segments, as far as there are slots."""
        waiting = self.waiting
        while waiting and self.connected and self._posted - min(self._completed, self._credited) < SLOTS:
            operation, header, payload = waiting.popleft()
            at = self._posted % SLOTS * SLOT
            end = at + HEADER.size + len(payload)
            self._sends.buf[at : at + HEADER.size] = header
            self._sends.buf[at + HEADER.size : end] = payload
            self._qp.write(
                self._sends, self._remote_addr + at, self._remote_rkey, offset=at, length=end - at,
                wr_id=self.number << 2 | DATA, imm=self._posted % SLOTS,
            )  # fmt: skip
            self._note_request()
            self._posted += 1
            if operation is not None:
                operation.copied()

    def probe(self) -> None:
        """Write zero bytes, so that a QP error reveals a dead peer; one probe at a time."""
        if self.connected and not self._controls and self._posted == self._completed:
            self._control(None)

    def completed(self, kind: int) -> None:
        """The NIC has completed a request."""
        self._stalled_since = time.monotonic()
        if kind == DATA:
            self._completed += 1
        else:
            self._controls -= 1

    @property
    def drained(self) -> bool:
        """True if nothing waits and everything sent has arrived."""
        return not self.connected or (not self.waiting and self._posted == self._completed and not self._controls)

    def silent_since(self) -> float | None:
        """Time of the last acknowledgement while something is in flight; None if nothing is."""
        return self._stalled_since if self._posted > self._completed or self._controls else None

    def _note_request(self) -> None:
        if self._posted == self._completed and not self._controls:
            self._stalled_since = time.monotonic()

    def _control(self, imm: int | None) -> None:
        self._note_request()
        self._controls += 1
        self._qp.write(
            self._sends, self._remote_addr, self._remote_rkey, length=0, wr_id=self.number << 2 | CONTROL, imm=imm
        )

    # --- receiving --------------------------------------------------------------------------------------------------

    def credit(self, imm: int) -> None:
        """Note how many segments the peer has read so far, as an immediate reports."""
        self._credited += (imm - self._credited) & _CREDIT_MASK

    def segment(self, imm: int, length: int) -> memoryview:
        """Return header and payload in the slot that an immediate names; valid until `free_slot`."""
        at = imm % SLOTS * SLOT
        return self._receives.buf[at : at + length]

    def free_slot(self, peer_reachable: bool) -> None:
        """Free the slot of a segment that was read; return credit to the peer for every quarter of the slots."""
        self._consumed += 1
        if peer_reachable and self._consumed - self._reported >= SLOTS // 4:
            self._reported = self._consumed
            self._control(CREDIT | self._consumed & _CREDIT_MASK)

    def receive(self) -> None:
        """Post a receive in place of a used one."""
        self._qp.receive(self.number << 2 | RECEIVE)
