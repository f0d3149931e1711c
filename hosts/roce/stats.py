"""Counters of one RoCEv2 QP; those that MRC has as well have the same names."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class QpStats:
    """What one QP has counted since it was created."""

    posted_bytes: int = 0
    sent_packets: int = 0  # data, with retransmissions
    sent_bytes: int = 0  # payload, with retransmissions
    acked_packets: int = 0
    acked_bytes: int = 0  # of whole packets, as they are acknowledged
    retx_packets: int = 0
    lost_packets: int = 0  # times the QP went back
    lost_nack: int = 0  # of these by a NAK
    lost_timeout: int = 0
    acks_received: int = 0
    nacks_received: int = 0
    cnps_received: int = 0
    timeouts: int = 0
    bogus_control: int = 0  # ACKs of what was never sent
    received_packets: int = 0
    placed_packets: int = 0
    placed_bytes: int = 0
    duplicate_packets: int = 0
    out_of_order: int = 0  # dropped since an earlier one is missing
    ecn_packets: int = 0
    no_resource: int = 0  # immediates without a posted receive
    access_errors: int = 0
    acks_sent: int = 0
    nacks_sent: int = 0
    cnps_sent: int = 0

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
