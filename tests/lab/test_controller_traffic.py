"""Controller actions and failures while data crosses the fabric at full rate: nothing is lost."""

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bmv2 import TARGETS
from controller_lab import ControlledLab, controlled_lab

from mrclab.experiments.survey.streams import lost

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
]

WRITE_BYTES = 4 << 20
MANY = 64  # writes posted at once: more than any test needs; what is left is thrown away with the QP


class Traffic:
    """RDMA writes from h1 to h2, one after the other, at the full rate of all planes."""

    def __init__(self, lab: ControlledLab, directory: Path) -> None:
        self._lab = lab
        self._source = directory / "source"
        self._source.write_bytes(os.urandom(WRITE_BYTES))
        self._target = directory / "target"
        ends = {host: lab.call(host, "create_qp", peer=peer) for host, peer in (("h1", "h2"), ("h2", "h1"))}
        for host, peer in (("h1", "h2"), ("h2", "h1")):
            lab.call(host, "connect_qp", qp=ends[host]["qp"], remote=ends[peer])
        self.qps = {host: end["qp"] for host, end in ends.items()}
        local = lab.call("h1", "reg_mr", path=str(self._source), access="read")
        remote = lab.call("h2", "reg_mr", path=str(self._target), length=WRITE_BYTES, access="write")
        for number in range(MANY):
            lab.call(
                "h1",
                "post_send",
                qp=self.qps["h1"],
                wr_id=number,
                opcode="RDMA_WRITE",
                local={"lkey": local["lkey"], "offset": 0, "length": WRITE_BYTES},
                remote={"va": remote["va"], "rkey": remote["rkey"]},
            )
        self.flow(200)

    def counters(self, host: str = "h1") -> dict[str, Any]:
        """One end of the QP as its agent counts it; h1 sends."""
        qps: list[dict[str, Any]] = self._lab.call(host, "stats")["qps"]
        return next(row for row in qps if row["qp"] == self.qps[host])

    @property
    def lost(self) -> int:
        """Packets that were lost so far."""
        return lost(self.counters("h1"), self.counters("h2"))

    def flow(self, packets: int) -> None:
        """Wait until so many more packets were acknowledged."""
        wanted = self.counters()["acked_bytes"] + packets * self._lab.fabric.spec.path_mtu
        self._lab.wait(lambda: self.counters()["acked_bytes"] >= wanted)

    def stop(self) -> None:
        for host, qp in self.qps.items():
            self._lab.call(host, "destroy_qp", qp=qp)


@pytest.fixture(scope="module", params=TARGETS)
def lab(request: pytest.FixtureRequest) -> Iterator[ControlledLab]:
    with controlled_lab("-flow", request.param) as it:
        it.start()
        it.wait(lambda: all(it.call("controller", "status")["agents"].values()))
        yield it


@pytest.fixture
def traffic(lab: ControlledLab, tmp_path: Path) -> Iterator[Traffic]:
    it = Traffic(lab, tmp_path)
    yield it
    it.stop()


def test_every_t1_is_rebooted_in_turn_with_drain_and_no_packet_is_lost(lab: ControlledLab, traffic: Traffic) -> None:
    for switch in [switch.name for switch in lab.fabric.switches if switch.tier == "t1"]:
        assert lab.call("controller", "drain", switch=switch, timeout=20)["drained"]
        lab.emulation.restart(switch)
        traffic.flow(100)
        assert lab.call("controller", "undrain", switch=switch, timeout=20)["undrained"]
        traffic.flow(100)
    lab.wait(lambda: traffic.lost == 0)  # what arrived all the same is known when it was retransmitted


def test_a_t1_that_is_rebooted_without_drain_costs_what_was_in_flight(lab: ControlledLab, traffic: Traffic) -> None:
    lab.emulation.restart("t1-p1-1")
    assert lab.call("controller", "wait_verified", timeout=20)["verified"]
    traffic.flow(500)
    window = 1.5 * lab.fabric.spec.bdp_packets * lab.fabric.planes  # the most that NSCC keeps in flight
    assert 0 < traffic.lost <= 2 * window


def test_controllers_come_and_go_without_a_lost_packet(lab: ControlledLab, traffic: Traffic) -> None:
    before = traffic.lost
    lab.start_controller("backup", "--election-id", "50")
    lab.wait(lambda: lab.call("backup", "status")["state"] == "backup")
    lab.kill("controller")
    assert lab.call("backup", "wait_verified", timeout=20)["verified"]
    traffic.flow(200)
    lab.kill("backup")
    lab.start_controller()
    assert lab.call("controller", "wait_verified", timeout=20)["verified"]
    assert lab.call("controller", "audit") == {"entries": [], "unread": {}}
    traffic.flow(200)
    lab.wait(lambda: traffic.lost == before)


def sent_in_plane(lab: ControlledLab, traffic: Traffic, plane: int) -> int:
    """Packets that h1's QP has sent by the EVs of a plane."""
    paths = [path for path in lab.call("h1", "stats")["paths"] if path["qp"] == traffic.qps["h1"]]
    return sum(path["sent_packets"] for path in paths if path["plane"] == plane)


def test_no_packet_leaves_by_a_denied_plane_once_deny_has_answered(lab: ControlledLab, traffic: Traffic) -> None:
    for what in ("h2-p2", "plane 1"):
        plane = 2 if what == "h2-p2" else 1
        assert sent_in_plane(lab, traffic, plane) > 0
        lab.call("controller", "deny", what=what, reason="loses packets")
        before = sent_in_plane(lab, traffic, plane)
        traffic.flow(300)
        assert sent_in_plane(lab, traffic, plane) == before
        lab.call("controller", "undeny", what=what)
        lab.wait(lambda before=before, plane=plane: sent_in_plane(lab, traffic, plane) > before)  # type: ignore[misc]


def test_a_watched_ev_is_counted_at_exactly_the_switches_of_its_path(lab: ControlledLab, traffic: Traffic) -> None:
    path = next(p for p in lab.call("h1", "stats")["paths"] if p["qp"] == traffic.qps["h1"])
    lab.call("controller", "watch_ev", ev=path["ev"])
    try:
        traffic.flow(300)
        counted = lab.call("controller", "ev_counters")["evs"][str(path["ev"])]
        plane = path["plane"]
        carried = {switch for switch, cell in counted.items() if cell["packets"]}
        assert carried == {f"t0-p{plane}-1", f"t1-p{plane}-{path['uplink']}", f"t0-p{plane}-2"}
        page = urllib.request.urlopen(lab.call("controller", "metrics")["url"]).read().decode()
        assert f'mrclab_ev_packets_total{{ev="{path["ev"]:#010x}",switch="t0-p{plane}-1"}}' in page
        assert 'mrclab_qp_sent_packets_total{host="h1"' in page
    finally:
        lab.call("controller", "unwatch_ev", ev=path["ev"])
    assert lab.call("controller", "ev_counters")["evs"] == {}
