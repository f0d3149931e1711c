"""Fabrics of three tiers: numbering, addresses of six uSIDs, and runs of both transports through them."""

import itertools
from typing import Any

import pytest

import mrclab
from mrclab.controller.provisioning import intent
from mrclab.topo import spec as specs
from mrclab.topo import srv6
from mrclab.topo.model import Fabric

SPEC: dict[str, Any] = {
    "planes": 2, "pods": 2, "t0s": 4, "t1s": 2, "t2s": 4, "hosts_per_t0": 2,
    "link": {"rate": "100 Gb/s", "delay": "600ns"},
}  # fmt: skip


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return Fabric(specs.load(SPEC))


def test_every_port_of_every_switch_is_an_end_of_its_cable(fabric):
    assert (len(fabric.switches), len(fabric.links)) == (2 * (4 + 4 + 4), 2 * (8 + 8 + 8))
    for index, link in enumerate(fabric.links):
        assert link.index == index
        assert fabric.link(link.name) == link
        for end in link.ends:
            assert fabric.link(end.interface) == link
            assert fabric.node(end.node).port(end.number).link == link.name
    assert {port.peer.node for port in fabric.switch("t2-p1-3").ports} == {"t1-p1-2", "t1-p1-4"}
    assert {port.peer.node for port in fabric.switch("t1-p1-4").ports} == {"t0-p1-3", "t0-p1-4", "t2-p1-3", "t2-p1-4"}


def test_paths_cross_no_t1_one_or_two(fabric):
    assert [fabric.links_between("h1", to) for to in ("h2", "h3", "h5")] == [2, 4, 6]
    assert [len(fabric.paths("h1", to)) for to in ("h2", "h3", "h5")] == [2, 4, 8]
    names = [link.name for link in fabric.path_links("h1", "h8", 2, 3)]
    assert names == [
        "h1-p2/t0-p2-1", "t0-p2-1/t1-p2-2", "t1-p2-2/t2-p2-3", "t1-p2-4/t2-p2-3", "t0-p2-4/t1-p2-4", "h8-p2/t0-p2-4",
    ]  # fmt: skip


def test_switches_forward_each_address_along_its_path(fabric):
    """Every switch's own entries, from uSID to uSID: what the P4 program does with them."""
    routes = {switch.name: {port.usid: port for port in switch.ports} for switch in fabric.switches}
    for source, destination in (("h1", "h2"), ("h1", "h3"), ("h1", "h8"), ("h7", "h2")):
        for plane, uplink in fabric.paths(source, destination):
            usids = srv6.usids(fabric.outer_address(source, destination, srv6.ev(plane, uplink, 0)))
            port = fabric.host(source).port(plane)
            crossed = [port.link]
            node = port.peer.node
            for own, following in itertools.pairwise(usids):
                assert fabric.switch(node).usid == own
                out = routes[node][following]
                crossed.append(out.link)
                node = out.peer.node
            assert node == destination
            assert crossed == [link.name for link in fabric.path_links(source, destination, plane, uplink)]


def test_an_ev_is_read_back_from_its_address(fabric):
    for plane, uplink in fabric.paths("h1", "h8"):
        ev = srv6.ev(plane, uplink, 7)
        assert srv6.ev_of_address(fabric.outer_address("h1", "h8", ev), 7) == ev


def test_plain_routes_lead_up_by_all_uplinks_and_down_by_one(fabric):
    def ports(switch: str, group: int) -> list[int]:
        entries = intent.entries(fabric, fabric.switch(switch))
        key = (("hdr.ipv6.dst", (srv6.group_prefix(group), 64)),)
        (entry,) = [entry for entry in entries if entry.table == "ipv6_fib" and entry.match == key]
        return [dict(act.params)["port"] for act in entry.actions]

    assert ports("t0-p1-1", 4) == [3, 4]
    assert ports("t1-p1-2", 2) == [2]
    assert ports("t1-p1-2", 3) == [3, 4]
    assert ports("t2-p1-4", 3) == [2]


@pytest.mark.parametrize("transport", [{"kind": "mrc"}, {"kind": "roce"}], ids=["mrc", "roce"])
def test_a_permutation_across_pods_keeps_its_links_busy(transport):
    scenario = mrclab.scenario(
        fabric=SPEC,
        transport=transport,
        traffic=[{"name": "all", "kind": "permutation", "hosts": "all", "shift": 4, "size": "1 MB", "message": "1 MB"}],
    )
    run = mrclab.run(scenario, world="sim", seed=1)
    assert run.passed
    assert sum(flow["lost_packets"] for flow in run.flows) < 0.02 * sum(flow["sent_packets"] for flow in run.flows)
    if transport["kind"] == "mrc":
        assert min(flow["goodput"] for flow in run.flows) * 8e-9 > 0.5 * 200  # 1 MB is three round trips long


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "link_down", "link": "t1-p1-1/t2-p1-2"},
        {"kind": "switch_crash", "switch": "t2-p1-2"},
        {"kind": "switch_freeze", "switch": "t1-p1-3"},
    ],
    ids=lambda fault: fault["kind"],
)
def test_what_fails_above_is_left_out_by_senders(fault):
    scenario = mrclab.scenario(
        fabric=SPEC,
        transport={"ev_profile": {"active_per_plane": 4, "backup_per_plane": 0}},
        traffic=[{"name": "f", "kind": "write", "from": "h1", "to": "h7", "size": "4 MB"}],
        faults=[{"name": "cut", "at": "30% of f", **fault}],
        expect=[{"kind": "integrity"}, {"kind": "retransmitted"}, {"kind": "qp_errors", "at_most": 0}],
    )
    run = mrclab.run(scenario, world="sim", seed=1)
    assert run.passed
    gone = {(row["plane"], row["uplink"]) for row in run.ev_transitions if row["new"] == "ASSUMED_BAD"}
    lost = {(1, 2)} if fault["kind"] != "switch_freeze" else {(1, 1), (1, 2)}
    assert gone == lost


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pods": 3}, "t0s 4 do not make 3 pods"),
        ({"t2s": 3}, "t2s 3 cannot be shared out among 2 T1s"),
        ({"pods": 1}, "t2s 4 join pods, and there is one"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(specs.SpecError, match=message):
        specs.load({**SPEC, **changes})
