"""Streams of RDMA writes between pairs of hosts, many QPs in parallel, and their agents' counters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mrclab.lab.session.lab import Lab


@dataclass(frozen=True)
class Qp:
    """One connection: its QP number at either end."""

    source: str
    destination: str
    send: int
    receive: int


def lost(sender: Mapping[str, Any], receiver: Mapping[str, Any]) -> int:
    """Packets that a QP lost, from the counters of its ends: declared lost, less those trimmed or arrived late."""
    arrived = sender["lost_nack"] + sender["late_packets"] + receiver["duplicate_packets"]
    return max(0, int(sender["lost_packets"] - arrived))


class Streams:
    """Streams over `qps` QPs per (source, destination) pair, until `stop`."""

    def __init__(self, lab: Lab, pairs: Iterable[tuple[str, str]], qps: int = 1) -> None:
        self._lab = lab
        self._running = [
            lab.start_traffic({"kind": "stream", "from": source, "to": destination, "duration": "3600s", "qps": qps})
            for source, destination in pairs
        ]
        self.qps = [
            Qp(flow.source, flow.destination, send, receive)
            for running in self._running
            for flow, send, receive in running.qps()
        ]

    def stop(self) -> None:
        """Destroy all QPs, with outstanding work."""
        for running in self._running:
            self._lab.cut_short(running)

    def lost(self) -> list[int]:
        """Packets lost so far by QP."""
        rows = self._rows()
        return [lost(rows[qp.source, qp.send], rows[qp.destination, qp.receive]) for qp in self.qps]

    def received(self, counter: str) -> int:
        """Sum of a counter so far, over all receiving QPs."""
        rows = self._rows()
        return sum(int(rows[qp.destination, qp.receive][counter]) for qp in self.qps)

    def paths(self) -> list[tuple[Qp, tuple[int, int], int]]:
        """The EVs of all QPs: the QP, its path as (plane, uplink), and packets declared lost on it."""
        by_number = {(qp.source, qp.send): qp for qp in self.qps}
        return [
            (by_number[host, row["qp"]], (int(row["plane"]), int(row["uplink"])), int(row["lost_packets"]))
            for host in sorted({qp.source for qp in self.qps})
            for row in self._lab.world.call(host, "stats")["paths"]
            if (host, row["qp"]) in by_number
        ]

    def _rows(self) -> dict[tuple[str, int], dict[str, Any]]:
        hosts = sorted({host for qp in self.qps for host in (qp.source, qp.destination)})
        return {(host, row["qp"]): row for host in hosts for row in self._lab.world.call(host, "stats")["qps"]}
