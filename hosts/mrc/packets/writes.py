"""Headers of data packets as bytes, from the requestor's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets import wire

if TYPE_CHECKING:
    from mrclab.hosts.mrc.recovery.sent import SentPacket

# from other modules, as local names: used once per packet
_MIGRATED, _PAD_SHIFT, _P_KEY = wire.MIGRATED, wire.PAD_SHIFT, wire.P_KEY
_FLAG_TS, _TSETH_WORD, _WITH_IMM = h.FLAG_TS, h.TSETH_WORD, h.WITH_IMM
_pack_with_time = h.WRITE_TS.pack


def write_headers(packet: SentPacket, qpn: int, psn: int, flags: int) -> bytes:
    """Return BTH to RETH, with a timestamp if `flags` say so, and the immediate if there is one."""
    message = packet.message
    op = packet.op
    padding = _MIGRATED | (-packet.size & 3) << _PAD_SHIFT
    va = message.remote_va + packet.offset
    if flags & _FLAG_TS:
        body = _pack_with_time(
            op, padding, _P_KEY, qpn, flags << 24 | psn,
            message.rqmsn, message.msn, packet.ts, _TSETH_WORD, va, message.rkey, message.length,
        )  # fmt: skip
    else:
        body = h.WRITE_PLAIN.pack(
            op, padding, _P_KEY, qpn, flags << 24 | psn, message.rqmsn, message.msn, va, message.rkey, message.length
        )
    return body + wire.IMMEDIATE.pack(message.imm) if op in _WITH_IMM else body
