"""Flows of RDMA writes in a lab of real processes, and what their ends count."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller_lab import ControlledLab

WRITE_BYTES = 8 << 20
MANY = 64  # writes posted at once: more than any test needs; what is left is thrown away with the QP


class Flow:
    """Writes from one host to another, one after the other, as fast as the transport lets them."""

    def __init__(
        self,
        lab: ControlledLab,
        source: str,
        destination: str,
        directory: Path,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.lab, self.ends = lab, (source, destination)
        infos = [
            lab.call(source, "create_qp", peer=destination, attributes=attributes or {}),
            lab.call(destination, "create_qp", peer=source),
        ]
        self.qps = [info["qp"] for info in infos]
        for host, qp, remote in zip(self.ends, self.qps, reversed(infos), strict=True):
            lab.call(host, "connect_qp", qp=qp, remote=remote)
        data = directory / "source"
        if not data.exists():
            data.write_bytes(os.urandom(WRITE_BYTES))
        self._local = lab.call(source, "reg_mr", path=str(data), access="read")["lkey"]
        target = directory / f"{source}-{destination}-{self.qps[0]}"
        self._remote = lab.call(destination, "reg_mr", path=str(target), length=WRITE_BYTES, access="write")

    def start(self) -> float:
        """Post the writes; returns the monotonic time before the first."""
        began = time.monotonic()
        for number in range(MANY):
            self.lab.call(
                self.ends[0],
                "post_send",
                qp=self.qps[0],
                wr_id=number,
                opcode="RDMA_WRITE",
                local={"lkey": self._local, "offset": 0, "length": WRITE_BYTES},
                remote={"va": self._remote["va"], "rkey": self._remote["rkey"]},
            )
        return began

    def counters(self, end: int = 0) -> dict[str, Any]:
        """Counters of the sender (0) or the receiver (1)."""
        rows = self.lab.call(self.ends[end], "stats")["qps"]
        return next(row for row in rows if row["qp"] == self.qps[end])

    def paths(self) -> list[dict[str, Any]]:
        """The sender's EVs."""
        rows: list[dict[str, Any]] = self.lab.call(self.ends[0], "stats")["paths"]
        return [row for row in rows if row["qp"] == self.qps[0]]

    def in_use(self) -> set[tuple[int, int]]:
        """Plane and uplink of every EV that the sender sprays over now."""
        return {(row["plane"], row["uplink"]) for row in self.paths() if row["state"] in ("GOOD", "SKIP")}

    def placed(self) -> int:
        """Packets that are in the receiver's memory."""
        return int(self.counters(1)["placed_packets"])

    def stop(self) -> None:
        """Destroy both QPs and give the memory back."""
        for host, qp, lkey in zip(self.ends, self.qps, (self._local, self._remote["lkey"]), strict=True):
            self.lab.call(host, "destroy_qp", qp=qp)
            self.lab.call(host, "dereg_mr", lkey=lkey)


def window(flows: Sequence[Flow], packets: int) -> tuple[float, list[int]]:
    """Wait until all flows together placed so many packets more; returns the seconds and the packets of each."""
    before, began = [flow.placed() for flow in flows], time.monotonic()

    def grown() -> list[int]:
        return [flow.placed() - start for flow, start in zip(flows, before, strict=True)]

    flows[0].lab.wait(lambda: sum(grown()) >= packets)
    return time.monotonic() - began, grown()


def line_share(flows: Sequence[Flow], packets: int, enough: float, tries: int = 6) -> float:
    """The goodput of flows as a share of one host's payload line rate: the best of some windows, the first that is
    enough. A machine that stalls makes a window worse, and nothing makes one better than the network is.
    """
    spec = flows[0].lab.fabric.spec
    best = 0.0
    for _ in range(tries):
        seconds, placed = window(flows, packets)
        best = max(best, sum(placed) / (seconds * spec.planes * spec.link.rate_pps))
        if best >= enough:
            break
    return best


def jain(values: Sequence[float]) -> float:
    """Jain's fairness index: 1 where all are equal, 1/n where one has everything."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def one_active_ev(lab: ControlledLab, host: str) -> None:
    """From now on QPs of this host draw one active EV and one backup per plane."""
    config = json.loads((lab.run_dir / f"node/{host}.json").read_text())
    config["version"] = lab.call(host, "hello")["config_version"] + 1
    config["ev_profiles"][0].update(active_per_plane=1, backup_per_plane=1, ev_min_active=1)
    lab.call(host, "update_config", config=config)
