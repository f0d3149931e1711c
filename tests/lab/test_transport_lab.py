"""The transport on a whole fabric of real processes: what it gets out of the links, and how it shares them.

Everything is in packets, shares of the line rate and round trips. Losses of any kind are counted at both ends and in
every switch.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from controller_lab import ControlledLab, controlled_lab
from flows import Flow, jain, line_share, one_active_ev, window

from mrclab.topo import srv6
from mrclab.topo.cables.cablefaults import Loss, Match

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]

FOUR_PLANES = {"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, "link": {"rate_pps": 150, "delay": 0.012}}
THREE_GROUPS = {"planes": 2, "t0s": 3, "t1s": 4, "hosts_per_t0": 4, "link": {"rate_pps": 500, "delay": 0.0032}}
DATA_BYTES = 1000  # frames longer than this carry data


@pytest.fixture(scope="module")
def lab() -> Iterator[ControlledLab]:
    with controlled_lab("-transport", "soft", **FOUR_PLANES) as it:
        it.start()
        yield it


def test_one_qp_fills_an_idle_fabric_and_distance_does_not_matter(lab: ControlledLab, tmp_path: Path) -> None:
    shares = {}
    for destination in ("h2", "h3"):
        flow = Flow(lab, "h1", destination, tmp_path)
        flow.start()
        window([flow], 200)
        shares[destination] = line_share([flow], 1200, enough=0.985)
        counters = flow.counters()
        assert (counters["lost_packets"], counters["retx_packets"]) == (0, 0)
        flow.stop()
    assert min(shares.values()) >= 0.95
    assert abs(shares["h2"] - shares["h3"]) <= 0.02


def test_heavy_loss_on_one_ev_costs_next_to_nothing(lab: ControlledLab, tmp_path: Path) -> None:
    flow = Flow(lab, "h1", "h3", tmp_path)
    flow.start()
    before = line_share([flow], 1200, enough=0.985)
    cost = []
    for uplink in (1, 2):
        match = Match(paths=((2, uplink),), min_length=DATA_BYTES)
        fault = lab.emulation.cables.inject(f"t0-p2-1/t1-p2-{uplink}", Loss(0.2), match=match)
        seconds, placed = window([flow], 5000)
        lab.emulation.cables.clear(fault)
        line = lab.fabric.planes * lab.fabric.spec.link.rate_pps
        cost.append(1 - placed[0] / (seconds * line) / before)
        if cost[-1] <= 0.02:
            break
    assert min(cost) <= 0.02
    assert 0 < flow.counters()["lost_packets"] < 100
    assert flow.counters()["state"] == "RTS"
    flow.stop()


@pytest.mark.parametrize("ecn_skip", [True, False])
def test_ecn_moves_a_flow_off_a_path_that_another_cannot_leave(
    lab: ControlledLab, tmp_path: Path, ecn_skip: bool
) -> None:
    for host in ("h1", "h2"):
        one_active_ev(lab, host)
    free = Flow(lab, "h1", "h3", tmp_path, {"ecn_skip": ecn_skip})
    free.start()
    window([free], 400)
    shared = free.in_use()
    assert len(shared) == lab.fabric.planes
    pinned = Flow(lab, "h2", "h4", tmp_path, {"ev_profile": pinned_profile(lab, "h2", shared)})
    began = pinned.start()
    window([free, pinned], 1200)
    try:
        if ecn_skip:
            left: dict[tuple[int, int], float] = {}
            for e in lab.events("ev.state", began, "h1"):
                if e["new"] == "STANDBY" and e["reason"] in ("ecn", "trimmed"):
                    left.setdefault((e["plane"], e["uplink"]), e["t"] - began)
            assert shared <= set(left)  # a host that had to wait for a CPU sends a burst, and may move on its own
            assert max(left[path] for path in shared) / free.counters()["base_rtt"] < 10
            share = line_share([free, pinned], 2000, enough=1.9)
            assert share >= 1.9, "both have a path for themselves in every plane"
        else:
            assert free.in_use() == shared
            _, placed = window([free, pinned], 2000)
            assert line_share([free, pinned], 1200, enough=1.2, tries=2) < 1.2, "two flows on one path per plane"
            assert jain(placed) > 0.8
    finally:
        free.stop()
        pinned.stop()


def pinned_profile(lab: ControlledLab, host: str, paths: set[tuple[int, int]]) -> int:
    """An explicit EV profile of exactly these paths."""
    count = len(paths)
    number = lab.call(host, "create_ev_profile", mode="EXPLICIT", format="STEV", ev_count=count, ev_min_active=count)[
        "profile"
    ]
    for index, (plane, uplink) in enumerate(sorted(paths)):
        value = srv6.ev(plane, uplink, srv6.ev_tag(index)).to_bytes(4, "big").hex()
        lab.call(host, "replace_ev", profile=number, index=index, port=plane, value=value)
    for state in ("OFFLINE", "ONLINE"):
        lab.call(host, "modify_ev_profile", profile=number, state=state)
    return int(number)


def test_seven_senders_share_one_receiver_fairly_by_trims_alone(tmp_path: Path) -> None:
    with controlled_lab("-incast", "soft", **THREE_GROUPS) as lab:
        lab.start()
        flows = [Flow(lab, f"h{number}", "h9", tmp_path) for number in range(1, 8)]
        for flow in flows:
            flow.start()
        window(flows, 3000)
        totals = [0] * len(flows)
        for _ in range(
            6
        ):  # single windows are noisy: a sender keeps some ten packets in flight, and trims come one by one
            _, placed = window(flows, 4000)
            totals = [total + more for total, more in zip(totals, placed, strict=True)]
            if jain(totals) >= 0.98 and sum(totals) >= 8000:
                break
        assert jain(totals) >= 0.98
        assert line_share(flows, 2000, enough=0.97) >= 0.97
        ends = [flow.counters() for flow in flows]
        assert {end["state"] for end in ends} == {"RTS"}
        assert all(end["timeouts"] == 0 for end in ends)
        for flow in flows:
            flow.stop()
        lab.wait(lambda: queue_losses(lab) == 0)  # what still waits counts as lost until it has left
        switches = lab.call("controller", "counters")["switches"]
        assert {reason for told in switches.values() for reason, count in told["drops"].items() if count} == set()
        last_hop = [switches[f"t0-p{plane}-3"]["ports"]["1"]["class"] for plane in (1, 2)]
        assert all(port["trimmed_lasthop"]["packets"] > 0 for port in last_hop)


def queue_losses(lab: ControlledLab) -> int:
    """Packets that came into a switch and did not leave it."""
    switches = lab.call("controller", "counters")["switches"]
    return sum(told["drops"]["queue"] for told in switches.values())
