"""Counters of one MRC QP: those of every transport, and its own."""

from __future__ import annotations

from mrclab.hosts.rdma import stats as rc


class MrcQpStats(rc.QpStats):
    """Counters of one QP since it was created."""

    lost_time: int = 0
    lost_same_ev: int = 0
    lost_port: int = 0
    spurious_packets: int = 0  # declared lost and sent again although the first copy arrived
    late_packets: int = 0  # declared lost, arrived before it was sent again
    sacks_received: int = 0
    marks_received: int = 0
    tail_probes: int = 0
    path_probes: int = 0
    probe_replies: int = 0
    trimmed_packets: int = 0
    out_of_window: int = 0
    no_bitmap: int = 0  # packets refused for want of a bitmap
    no_pkt_buffer: int = 0  # packets refused for want of a buffer
    penalties: int = 0  # SACKs that asked the sender to slow down
    condemned: int = 0  # SACKs that said ALWAYS_SKIP
    sacks_sent: int = 0
    probes_answered: int = 0
