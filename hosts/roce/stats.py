"""Counters of one RoCEv2 QP: those of every transport, and its own."""

from __future__ import annotations

from dataclasses import dataclass

from mrclab.hosts.rdma import stats as rc


@dataclass(slots=True)
class RoceQpStats(rc.QpStats):
    """Counters of one QP since it was created. `lost_packets` counts the times that it went back."""

    cnps_received: int = 0
    out_of_order: int = 0  # dropped since an earlier one is missing
    cnps_sent: int = 0
