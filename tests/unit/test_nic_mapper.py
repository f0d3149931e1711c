"""The Clustermapper's probes of one host, against switches that are arithmetic: each shifts the address by one uSID."""

from typing import Any

import pytest

from mrclab.hosts.mapper import Mapper
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets.path import Frame
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import NodeConfig

OWN = "fdcb:bb00:0:1::2"
CYCLE_S = 0.6
TIMEOUT_S = 0.25


def node_config() -> NodeConfig:
    planes = (1, 2)
    return NodeConfig.model_validate(
        {
            "version": 1,
            "host": {"name": "h2", "number": 2, "group": 1, "downlink": 2, "address": OWN},
            "path_mtu": 4096,
            "link": {"rate_pps": 500, "delay": 0.002},
            "ports": [
                {"number": p, "name": f"h2-p{p}", "plane": p, "mac": f"02:0c:0{p}:00:02:01",
                 "peer_switch": f"t0-p{p}-1", "peer_port": 2, "peer_mac": f"02:0a:0{p}:01:00:02"}
                for p in planes
            ],
            "templates": [
                {"group": 2, "prefix": "fdcb:bb00:0:2::/64", "scope": "cross-t1",
                 "address": "fcbb:bb00:2001:1000:2002:3000::", "uplinks": {1: [1, 2], 2: [1, 2]},
                 "base_rtt": 0.016, "links": 4}
            ],
            "ev_profiles": [{"name": "default", "active_per_plane": 2, "backup_per_plane": 0, "ev_min_active": 1}],
            "transport": {"mpr": 2, "timeout_exponent": 18, "sack_gen_threshold": 12288, "trimming": True,
                          "trim_threshold": 8, "drop_threshold": 64},
        }
    )  # fmt: skip


class Bench:
    """A mapper, what it sent, and what it reported."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.reports: list[dict[str, Any]] = []
        self.mapper = Mapper(node_config(), self._send, self.reports.append, CYCLE_S, TIMEOUT_S)
        self.now = 100.0

    def _send(self, port: int, frame: Frame) -> None:
        assert frame.payload is None
        self.sent.append((port, frame.header + frame.trailer))

    def tick(self) -> list[tuple[int, bytes]]:
        """Let one interval pass; return what was sent."""
        self.sent.clear()
        self.mapper.tick(self.now)
        self.now += self.mapper.interval
        return list(self.sent)


def usids(frame: bytes) -> list[int]:
    return list(srv6.usids(srv6.from_bytes(frame[38:54])))


def test_a_cycle_probes_the_own_t0_and_every_t1_of_every_plane_once():
    bench = Bench()
    frames = [entry for _ in range(6) for entry in bench.tick()]
    assert [(port, usids(frame)) for port, frame in frames] == [
        (1, [0x2101, 0x3102]),
        (1, [0x2101, 0x1101, 0x2101, 0x3102]),
        (1, [0x2101, 0x1102, 0x2101, 0x3102]),
        (2, [0x2201, 0x3202]),
        (2, [0x2201, 0x1201, 0x2201, 0x3202]),
        (2, [0x2201, 0x1202, 0x2201, 0x3202]),
    ]


def test_probes_are_spread_evenly_over_the_cycle():
    assert Bench().mapper.interval == pytest.approx(CYCLE_S / 6)


def test_a_cycle_whose_probes_all_return_is_reported_with_their_times():
    bench = Bench()
    for _ in range(6):
        for _, frame in bench.tick():
            assert bench.mapper.receive(frame, bench.now - bench.mapper.interval + 0.008)
    (report,) = bench.reports
    assert (report["kind"], report["cycle"]) == ("mapper.report", 1)
    assert [(p["plane"], p["uplink"]) for p in report["probes"]] == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    assert all((p["sent"], p["lost"], p["rtt"]) == (1, 0, pytest.approx(0.008)) for p in report["probes"])


def test_a_probe_that_does_not_return_in_time_is_lost_in_its_own_cycle_only():
    bench = Bench()
    held = None
    for number in range(18):
        for _, frame in bench.tick():
            if number == 7:
                held = frame
            else:
                bench.mapper.receive(frame, bench.now)
    assert bench.mapper.receive(held, bench.now)
    lost = [(r["cycle"], p["plane"], p["uplink"]) for r in bench.reports for p in r["probes"] if p["lost"]]
    assert [report["cycle"] for report in bench.reports] == [1, 2, 3]
    assert lost == [(2, 1, 1)]
    assert all(p["rtt"] is None for r in bench.reports for p in r["probes"] if p["lost"])


def test_a_copy_of_a_probe_counts_once_and_keeps_the_first_time():
    bench = Bench()
    ((_, first),) = bench.tick()
    bench.mapper.receive(first, 100.004)
    bench.mapper.receive(first, 100.1)
    for _ in range(5):
        for _, frame in bench.tick():
            bench.mapper.receive(frame, bench.now)
    assert bench.reports[0]["probes"][0]["rtt"] == pytest.approx(0.004)


def test_silence_is_reported_as_loss_of_everything():
    bench = Bench()
    for _ in range(13):
        bench.tick()
    assert bench.reports[0]["cycle"] == 1
    assert [p["lost"] for p in bench.reports[0]["probes"]] == [1] * 6


@pytest.mark.parametrize("change", ["length", "opcode", "source", "destination"])
def test_what_is_no_probe_of_this_host_is_left_to_others(change):
    bench = Bench()
    frame = bytearray(bench.tick()[0][1])
    if change == "length":
        del frame[h.BTH_AT :]
    else:
        frame[{"opcode": h.BTH_AT, "source": h.INNER_AT + 23, "destination": h.INNER_AT + 39}[change]] ^= 1
    assert not bench.mapper.receive(bytes(frame), bench.now)


def test_a_forged_answer_to_a_probe_that_was_not_sent_changes_nothing():
    bench = Bench()
    frame = bytearray(bench.tick()[0][1])
    frame[h.BTH_AT + 10 : h.BTH_AT + 12] = (5).to_bytes(2, "big")
    assert bench.mapper.receive(bytes(frame), bench.now)
    for _ in range(10):
        bench.tick()
    assert bench.reports[0]["probes"][5]["lost"] == 1
