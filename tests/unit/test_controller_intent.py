"""From the fabric to table entries, against values worked out by hand."""

from ipaddress import IPv6Address

import pytest

from mrclab.controller.provisioning import intent
from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry
from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


def fabric(**changes: object) -> Fabric:
    return Fabric(FabricSpec.model_validate({"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, **changes}))


def forward(port: int, src_mac: int, dst_mac: int) -> EntryAction:
    return EntryAction("forward", (("port", port), ("src_mac", src_mac), ("dst_mac", dst_mac)))


GOLDEN_T0_P3_2 = {
    IntendedEntry("my_usid", (("locator_usid", 0xFCBB_BB00_2302),), (EntryAction("shift_usid"),)),
    IntendedEntry("usid_fib", (("locator_usid", 0xFCBB_BB00_3301),), (forward(1, 0x020A_0302_0001, 0x020C_0300_0301),)),
    IntendedEntry("usid_fib", (("locator_usid", 0xFCBB_BB00_3302),), (forward(2, 0x020A_0302_0002, 0x020C_0300_0401),)),
    IntendedEntry("usid_fib", (("locator_usid", 0xFCBB_BB00_1301),), (forward(3, 0x020A_0302_0003, 0x020B_0301_0002),)),
    IntendedEntry("usid_fib", (("locator_usid", 0xFCBB_BB00_1302),), (forward(4, 0x020A_0302_0004, 0x020B_0302_0002),)),
}


def test_a_t0_holds_itself_its_downlinks_and_its_uplinks() -> None:
    net = fabric()
    entries = intent.entries(net, net.switch("t0-p3-2"))
    assert {entry for entry in entries if entry.table in {"my_usid", "usid_fib"}} == GOLDEN_T0_P3_2


def test_a_t0_holds_the_address_of_the_host_at_each_downlink_and_a_t1_holds_none() -> None:
    net = fabric()
    entries = intent.entries(net, net.switch("t0-p3-2"))
    group = int(IPv6Address("fdcb:bb00:0:2::"))
    assert entries[:2] == tuple(
        IntendedEntry(
            "sources", (("std.ingress_port", port),), (EntryAction("expect_source", (("address", group | port),)),)
        )
        for port in (1, 2)
    )
    assert all(entry.table != "sources" for entry in intent.entries(net, net.switch("t1-p1-1")))


def test_the_entry_that_attracts_packets_is_written_last() -> None:
    net = fabric()
    assert all(intent.entries(net, switch)[-1].table == "my_usid" for switch in net.switches)


def test_plain_ipv6_goes_up_by_all_uplinks_and_down_by_one_port() -> None:
    net = fabric()
    up = [e for e in intent.entries(net, net.switch("t0-p1-1")) if e.table == "ipv6_fib"]
    prefix = int(IPv6Address("fdcb:bb00:0:2::"))
    remote = next(e for e in up if e.match == (("hdr.ipv6.dst", (prefix, 64)),))
    assert remote.one_shot
    assert [dict(act.params)["port"] for act in remote.actions] == [3, 4]
    down = [e for e in intent.entries(net, net.switch("t1-p1-2")) if e.table == "ipv6_fib"]
    assert [(e.match[0][1], dict(e.actions[0].params)["port"]) for e in down] == [
        ((int(IPv6Address("fdcb:bb00:0:1::")), 64), 1),
        ((prefix, 64), 2),
    ]


def test_ports_towards_nics_trim_later_and_never_mark() -> None:
    net = fabric(queue={"trim_threshold": 9, "last_hop_trim_threshold": 14, "ecn_min": 3, "ecn_max": 8})
    entries = intent.entries(net, net.switch("t0-p1-1"))
    trims = {e.match[0][1]: dict(e.actions[0].params) for e in entries if e.table == "trim_policy"}
    marks = {e.match[0][1]: dict(e.actions[0].params) for e in entries if e.table == "ecn_policy"}
    assert trims[1] == {"threshold": 14, "last_hop": 1}
    assert trims[3] == {"threshold": 9, "last_hop": 0}
    assert marks == {3: {"min_depth": 3, "last": 4}, 4: {"min_depth": 3, "last": 4}}


def test_with_last_hop_ecn_every_port_marks_alike():
    net = fabric(queue={"ecn_min": 3, "ecn_max": 8}, last_hop_ecn=True)
    for switch in net.switches:
        marks = {
            e.match[0][1]: dict(e.actions[0].params) for e in intent.entries(net, switch) if e.table == "ecn_policy"
        }
        assert marks == {port.number: {"min_depth": 3, "last": 4} for port in switch.ports}


def test_without_trimming_no_port_has_a_trim_threshold() -> None:
    net = fabric(trimming=False)
    assert not [e for s in net.switches for e in intent.entries(net, s) if e.table == "trim_policy"]


@pytest.mark.parametrize("shape", [{}, {"planes": 1, "t0s": 1, "t1s": 1, "hosts_per_t0": 1}, {"t0s": 3, "t1s": 5}])
def test_every_path_of_every_pair_leads_through_the_tables_to_the_right_nic(shape: dict[str, int]) -> None:
    net = fabric(**shape)
    tables = {s.name: {e.key: e for e in intent.entries(net, s)} for s in net.switches}
    for source in net.hosts:
        for destination in net.hosts:
            for plane, uplink in net.paths(source.name, destination.name):
                address = net.outer_address(source.name, destination.name, srv6.ev(plane, uplink, 0))
                assert walk(net, tables, source.port(plane).peer.node, address) == (destination.name, plane)


def walk(net: Fabric, tables: dict[str, dict[object, IntendedEntry]], node: str, address: int) -> tuple[str, int]:
    """Forward `address` by the entries alone; the node and port where it leaves the switches."""
    for _hop in range(4):
        key = (("locator_usid", address >> 80),)
        assert ("my_usid", key) in tables[node], f"{node} is not named by {IPv6Address(address)}"
        address = srv6.shift_usid(address)
        act = tables[node]["usid_fib", (("locator_usid", address >> 80),)].actions[0]
        params = dict(act.params)
        port = net.switch(node).port(params["port"])
        assert params["dst_mac"] == intent.mac(port.peer.mac)
        node = port.peer.node
        if port.to_host:
            return node, port.peer.number
    raise AssertionError(f"no NIC reached after four switches, at {node}")


def test_an_entry_is_described_in_the_words_of_the_fabric() -> None:
    net = fabric()
    switch = net.switch("t0-p1-1")
    wanted = next(e for e in intent.entries(net, switch) if e.match == (("locator_usid", 0xFCBB_BB00_1102),))
    assert intent.describe(net, switch, wanted) == "fcbb:bb00:1102::/48 by port 4 to t1-p1-2"
    plain = next(e for e in intent.entries(net, switch) if e.table == "ipv6_fib" and len(e.actions) == 2)
    assert intent.describe(net, switch, plain) == "fdcb:bb00:0:2::/64 by port 3 to t1-p1-1 or port 4 to t1-p1-2"
