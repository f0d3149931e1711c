"""File transfers from one host's memory to another's through the agents' verbs.

They work on any lab that is up, in this process or another one: they need only the hosts' operations. Both ends are
files: the source is mapped for reading, the transport writes the destination in place.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.lab.errors import RunError
from mrclab.lab.run.world import NodeAccess

_CHUNK = 1 << 16  # bytes per read, a multiple of four: a larger buffer would be fresh memory pages each time
_POLL = 0.02  # seconds between two looks at a transfer
GOOD_STATES = frozenset({"GOOD", "SKIP", "STANDBY", "DENIED"})


@dataclass(frozen=True)
class Finished:
    """Outcome of a transfer: the digests that both ends took of it, and its duration in seconds."""

    sent_sha256: str
    received_sha256: str
    seconds: float

    @property
    def intact(self) -> bool:
        """True if the receiver has the sender's bytes."""
        return self.sent_sha256 == self.received_sha256


class Transfer:
    """One RDMA write of a file. Call `prepare`, `start`, `poll` until it gives 1, `finish`, `release`."""

    def __init__(self, lab: NodeAccess, name: str, source: str, destination: str, path: Path) -> None:
        self._lab = lab
        self.name = name
        self.source = source
        self.destination = destination
        self.path = path
        self.size = path.stat().st_size
        self.target = lab.files / destination / f"{name}-from-{source}"
        self._ends: dict[str, dict[str, Any]] = {}  # host → {qp, mr}
        self._began = 0.0
        self._ended = 0.0

    def prepare(self) -> None:
        """Register both regions, make and connect both QPs."""
        self.target.parent.mkdir(parents=True, exist_ok=True)
        call = self._lab.call
        for host, peer in ((self.source, self.destination), (self.destination, self.source)):
            self._ends[host] = {"qp": call(host, "create_qp", peer=peer)}
        regions = ((self.source, self.path, "read"), (self.destination, self.target, "write"))
        for host, path, access in regions:
            region = call(host, "reg_mr", path=str(path.resolve()), length=self.size, access=access)
            self._ends[host]["mr"] = region
        call(self.source, "connect_qp", qp=self.qp(self.source), remote=self._ends[self.destination]["qp"])
        call(self.destination, "connect_qp", qp=self.qp(self.destination), remote=self._ends[self.source]["qp"])
        call(self.destination, "post_recv", qp=self.qp(self.destination), wr_id=1)

    def qp(self, host: str) -> int:
        """The handle of a host's QP."""
        return int(self._ends[host]["qp"]["qp"])

    def start(self) -> float:
        """Post the write; returns the time."""
        self._began = self._lab.now
        here, there = self._ends[self.source]["mr"], self._ends[self.destination]["mr"]
        self._lab.call(
            self.source,
            "post_send",
            qp=self.qp(self.source),
            wr_id=1,
            opcode="RDMA_WRITE_WITH_IMM",
            local={"lkey": here["lkey"], "offset": 0, "length": self.size},
            remote={"va": there["va"], "rkey": there["rkey"]},
            imm=1,
        )
        return self._began

    @property
    def ended(self) -> float:
        """Return the time at which the later end had its completion; 0 before."""
        return self._ended

    def poll(self) -> float:
        """Return the share of acknowledged bytes, 1 when both ends are done. Raises RunError if the transfer failed."""
        for host in (self.source, self.destination):
            for completion in self._lab.call(host, "poll_cq", qp=self.qp(host))["completions"]:
                if completion["status"] != "SUCCESS":
                    raise RunError(f"{self.name}: the work request on {host} ended with {completion['status']}")
                self._ends[host]["done"] = completion["t"]
        if all("done" in end for end in self._ends.values()):
            self._ended = max(end["done"] for end in self._ends.values())
            return 1.0
        if not self.size:
            return 0.0
        row = self.counters(self.source)
        if row.get("state") == "ERROR":
            raise RunError(f"{self.name}: the QP on {self.source} is in error: {row.get('reason', 'no reason given')}")
        return min(float(row.get("acked_bytes", 0)) / self.size, 0.9999)

    def counters(self, host: str) -> dict[str, Any]:
        """The counters of one end's QP."""
        qps: list[dict[str, Any]] = self._lab.call(host, "stats")["qps"]
        return next((row for row in qps if row["qp"] == self.qp(host)), {})

    def bad_paths(self) -> list[dict[str, Any]]:
        """Return the paths that the sender's QP does not use now."""
        rows: list[dict[str, Any]] = self._lab.call(self.source, "stats").get("paths", [])
        return [row for row in rows if row["qp"] == self.qp(self.source) and row["state"] not in GOOD_STATES]

    def finish(self) -> Finished:
        """Compare both ends by SHA-256."""
        return Finished(sha256(self.path), sha256(self.target), self._ended - self._began)

    def release(self) -> None:
        """Destroy the QPs and deregister the regions."""
        for host, end in self._ends.items():
            self._lab.call(host, "destroy_qp", qp=end["qp"]["qp"])
            if "mr" in end:
                self._lab.call(host, "dereg_mr", lkey=end["mr"]["lkey"])
        self._ends.clear()

    def run(self, progress: Callable[[float], None], timeout: float) -> Finished:
        """Run the whole transfer and wait; RunError if it takes longer than `timeout` seconds."""
        self.prepare()
        deadline = self.start() + timeout
        while (share := self.poll()) < 1:
            progress(share)
            if self._lab.now > deadline:
                raise RunError(f"{self.name} did not arrive within {timeout:g} s; {share * 100:.0f}% is acknowledged")
            self._lab.pause(_POLL)
        progress(1.0)
        outcome = self.finish()
        self.release()
        return outcome


def random_file(path: Path, size: int, seed: str) -> Path:
    """Make a file of reproducible random bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    with path.open("wb") as file:
        for begin in range(0, size, _CHUNK):
            file.write(draw.randbytes(min(_CHUNK, size - begin)))
    return path


def sha256(path: Path) -> str:
    """SHA-256 of a file as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
