"""Endless RDMA writes between pairs of hosts, many QPs in parallel, and their agents' counters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mrclab.lab.run.world import NodeAccess

WRITE_BYTES = 4 << 20


@dataclass(frozen=True)
class Qp:
    """One connection: its handle at either end."""

    source: str
    destination: str
    send: int
    receive: int


def lost(sender: Mapping[str, Any], receiver: Mapping[str, Any]) -> int:
    """Packets that a QP lost, from the counters of its ends: declared lost, less those trimmed or arrived late."""
    arrived = sender["lost_nack"] + sender["late_packets"] + receiver["duplicate_packets"]
    return max(0, int(sender["lost_packets"] - arrived))


class Streams:
    """Writes over `qps` QPs per (source, destination) pair, from `start` until `stop`."""

    def __init__(self, lab: NodeAccess, pairs: Iterable[tuple[str, str]], qps: int = 1, writes: int = 1) -> None:
        self._lab = lab
        self._writes = writes
        self._regions = {host: self._region(host) for host in sorted({host for pair in pairs for host in pair})}
        self.qps = [self._connect(*pair) for pair in pairs for _ in range(qps)]

    def start(self) -> None:
        """Post all writes on all QPs."""
        for qp in self.qps:
            local, remote = self._regions[qp.source], self._regions[qp.destination]
            for number in range(self._writes):
                self._lab.call(
                    qp.source,
                    "post_send",
                    qp=qp.send,
                    wr_id=number,
                    opcode="RDMA_WRITE",
                    local={"lkey": local["lkey"], "offset": 0, "length": WRITE_BYTES},
                    remote={"va": remote["va"], "rkey": remote["rkey"]},
                )

    def stop(self) -> None:
        """Destroy all QPs, with outstanding work."""
        for qp in self.qps:
            self._lab.call(qp.source, "destroy_qp", qp=qp.send)
            self._lab.call(qp.destination, "destroy_qp", qp=qp.receive)

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
        by_handle = {(qp.source, qp.send): qp for qp in self.qps}
        return [
            (by_handle[host, row["qp"]], (int(row["plane"]), int(row["uplink"])), int(row["lost_packets"]))
            for host in sorted({qp.source for qp in self.qps})
            for row in self._lab.call(host, "stats")["paths"]
            if (host, row["qp"]) in by_handle
        ]

    def _rows(self) -> dict[tuple[str, int], dict[str, Any]]:
        hosts = sorted({host for qp in self.qps for host in (qp.source, qp.destination)})
        return {(host, row["qp"]): row for host in hosts for row in self._lab.call(host, "stats")["qps"]}

    def _region(self, host: str) -> dict[str, Any]:
        folder = self._lab.files / host
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "survey"
        return self._lab.call(host, "reg_mr", path=str(path), length=WRITE_BYTES, access="write")

    def _connect(self, source: str, destination: str) -> Qp:
        both = ((source, destination), (destination, source))
        ends = {one: self._lab.call(one, "create_qp", peer=other) for one, other in both}
        for one, other in both:
            self._lab.call(one, "connect_qp", qp=ends[one]["qp"], remote=ends[other])
        return Qp(source, destination, ends[source]["qp"], ends[destination]["qp"])
