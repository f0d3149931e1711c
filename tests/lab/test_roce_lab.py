"""RoCEv2 across real switches: plain IPv6 and ECMP beside the SRv6 of MRC, provisioned by the lab's controller."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmv2 import TARGETS
from controller_lab import ControlledLab, controlled_lab

from mrclab.topo.config import transport

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
]

MTU = 4096
QPS = 16
SPORTS = random.Random(1).sample(range(0xC000, 0x10000), QPS)


@pytest.fixture(scope="module", params=TARGETS)
def lab(request: pytest.FixtureRequest) -> Iterator[ControlledLab]:
    """One plane, two T0s, four T1s, two hosts on each T0; the run's transport is RoCE."""
    shape: dict[str, Any] = {"planes": 1, "t1s": 4, "hosts_per_t0": 2, "link": {"rate_pps": 1000, "delay": 0.002}}
    with controlled_lab("-roce", request.param, **shape, **transport.fabric_defaults("roce")) as it:
        transport.store(transport.TransportSpec(kind="roce"), it.run_dir / transport.FILE_NAME)
        it.start()
        yield it


class Flow:
    """One QP each way, and a write between two hosts."""

    def __init__(
        self, lab: ControlledLab, directory: Path, source: str, target: str, packets: int, **attributes: Any
    ) -> None:
        self._lab, self.source, self.target, self._size = lab, source, target, packets * MTU
        ends = f"{source}-{target}-{attributes.get('udp_sport', '')}"
        self.files = directory / ends, directory / f"{ends}-received"
        self.files[0].write_bytes(os.urandom(self._size))
        ends = {
            host: lab.call(host, "create_qp", peer=peer, attributes=attributes)
            for host, peer in ((source, target), (target, source))
        }
        lab.call(source, "connect_qp", qp=ends[source]["qp"], remote=ends[target])
        lab.call(target, "connect_qp", qp=ends[target]["qp"], remote=ends[source])
        self.qps = {host: end["qp"] for host, end in ends.items()}

    def post(self) -> None:
        local = self._lab.call(self.source, "reg_mr", path=str(self.files[0]))
        remote = self._lab.call(self.target, "reg_mr", path=str(self.files[1]), length=self._size, access="write")
        region = {"local": {"lkey": local["lkey"], "length": self._size}}
        address = {"remote": {"va": remote["va"], "rkey": remote["rkey"]}}
        qp = self.qps[self.source]
        self._lab.call(self.source, "post_send", qp=qp, wr_id=qp, opcode="RDMA_WRITE", **region, **address)

    def wait(self) -> None:
        done = self._lab.wait_event("wr.done", node=self.source, qp=self.qps[self.source])
        assert done["status"] == "SUCCESS"
        assert self.files[0].read_bytes() == self.files[1].read_bytes()

    def row(self, host: str) -> dict[str, Any]:
        return next(row for row in self._lab.call(host, "stats")["qps"] if row["qp"] == self.qps[host])


def test_a_file_crosses_the_fabric_whole_and_nothing_is_lost(lab: ControlledLab, tmp_path: Path) -> None:
    flow = Flow(lab, tmp_path, "h1", "h3", 256)
    flow.post()
    flow.wait()
    row = flow.row("h1")
    assert (row["lost_packets"], row["retx_packets"], row["sent_packets"]) == (0, 0, 256)


def test_ecmp_spreads_qps_by_source_port_over_the_uplinks_and_keeps_each_on_one(
    lab: ControlledLab, tmp_path: Path
) -> None:
    flows = [Flow(lab, tmp_path, "h2", "h4", 24, udp_sport=sport) for sport in SPORTS]
    before = sent_by_uplink(lab)
    used: Counter[int] = Counter()
    for flow in flows:
        flow.post()
        flow.wait()
        after = sent_by_uplink(lab)
        sent = {port: after[port] - before[port] for port in after if after[port] != before[port]}
        assert list(sent.values()) == [24]
        used.update(sent.keys())
        before = after
    assert sum(used.values()) == QPS
    assert len(used) >= 3


def sent_by_uplink(lab: ControlledLab) -> dict[int, int]:
    """Data packets that the T0 of h1 and h2 sent by each port towards a T1."""
    ports = lab.call("controller", "counters")["switches"]["t0-p1-1"]["ports"]
    return {port.number: ports[str(port.number)]["class"]["no_trim"]["packets"]
            for port in lab.fabric.switch("t0-p1-1").ports if not port.to_host}  # fmt: skip


def test_incast_is_marked_at_the_last_hop_and_dcqcn_slows_the_senders(lab: ControlledLab, tmp_path: Path) -> None:
    flows = [Flow(lab, tmp_path, source, "h1", 512) for source in ("h2", "h3", "h4")]
    for flow in flows:
        flow.post()
    for flow in flows:
        flow.wait()
    assert sum(flow.row(flow.target)["cnps_sent"] for flow in flows) > 0
    assert sum(flow.row(flow.source)["cnps_received"] for flow in flows) > 0
    assert sum(flow.row(flow.source)["lost_packets"] for flow in flows) == 0
