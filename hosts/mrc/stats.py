"""Counters of one QP. Plain integers, so that counting costs nothing; `as_dict` is what samples and `stats` show."""

from __future__ import annotations

_COUNTERS = (
    # requestor
    "posted_bytes",
    "sent_packets",
    "sent_bytes",
    "acked_packets",
    "acked_bytes",
    "retx_packets",
    "lost_packets",
    "lost_time",
    "lost_same_ev",
    "lost_timeout",
    "lost_nack",
    "lost_port",
    "spurious_packets",
    "late_packets",
    "sacks_received",
    "nacks_received",
    "acks_received",
    "marks_received",
    "timeouts",
    "tail_probes",
    "path_probes",
    "probe_replies",
    "bogus_control",
    # responder
    "received_packets",
    "placed_packets",
    "placed_bytes",
    "duplicate_packets",
    "trimmed_packets",
    "ecn_packets",
    "out_of_window",
    "no_resource",
    "access_errors",
    "sacks_sent",
    "nacks_sent",
    "acks_sent",
    "probes_answered",
)


class QpStats:
    """What one QP has counted since it was created; names are those of `_COUNTERS`."""

    __slots__ = _COUNTERS

    posted_bytes: int
    sent_packets: int  # data, with retransmissions
    sent_bytes: int  # payload, with retransmissions
    acked_packets: int
    acked_bytes: int
    retx_packets: int
    lost_packets: int  # declared lost, by whatever trigger
    lost_time: int
    lost_same_ev: int
    lost_timeout: int
    lost_nack: int
    lost_port: int
    spurious_packets: int  # declared lost and sent again although the first copy arrived
    late_packets: int  # declared lost, arrived before it was sent again
    sacks_received: int
    nacks_received: int
    acks_received: int
    marks_received: int
    timeouts: int
    tail_probes: int
    path_probes: int
    probe_replies: int
    bogus_control: int  # control packets that named what was never sent
    received_packets: int
    placed_packets: int
    placed_bytes: int
    duplicate_packets: int
    trimmed_packets: int
    ecn_packets: int
    out_of_window: int
    no_resource: int
    access_errors: int
    sacks_sent: int
    nacks_sent: int
    acks_sent: int
    probes_answered: int

    def __init__(self) -> None:
        for name in _COUNTERS:
            setattr(self, name, 0)

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {name: getattr(self, name) for name in _COUNTERS}
