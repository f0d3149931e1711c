"""With a real switch on the cables: a fault on one port never disturbs the others of that switch."""

import os

import pytest
from bmv2 import TARGETS, needs_bmv2
from fault_ground import Ground, fault, scoped
from mrc_switch import MrcSwitch
from topo_helpers import END, ports, run_dir, small_fabric

from mrclab.topo import srv6
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.switches import thrift
from mrclab.topo.model import mac_bytes

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]

ETH_P_IPV6 = 0x86DD
CONTROL_CLASS = 46 << 2  # that queue is not rate limited
CUT, KEPT = "t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"


@pytest.fixture(scope="module", params=TARGETS)
def lab(request):
    with Emulation(small_fabric(t1s=2), run_dir(f"-iso-{request.param}"), request.param) as running:
        yield running


@pytest.fixture(scope="module")
def client(lab):
    """Primary on t0-p1-1, which knows its own uSID and those of its neighbours."""
    switch = lab.fabric.switch("t0-p1-1")
    with MrcSwitch(f"unix:{lab.run_dir}/{switch.name}.p4rt.sock", switch.device_id) as primary:
        primary.load()
        own = primary.exact("MrcIngress.my_usid", [srv6.usid_route(switch.usid)], "MrcIngress.shift_usid")
        routes = [
            primary.exact(
                "MrcIngress.usid_fib",
                [srv6.usid_route(port.usid)],
                "MrcIngress.forward",
                port.number,
                *(int.from_bytes(mac_bytes(mac), "big") for mac in (port.mac, port.peer.mac)),
            )
            for port in switch.ports
        ]
        primary.insert(own, *routes)
        yield primary


def packet(lab, uplink, payload):
    address = lab.fabric.outer_address("h1", "h2", srv6.ev(1, uplink, 0x8001))
    header = (6 << 28 | CONTROL_CLASS << 20).to_bytes(4, "big") + b"\0\0\x29\x40" + bytes(16)
    inner = (6 << 28).to_bytes(4, "big") + (len(payload) + 8).to_bytes(2, "big") + b"\x11\x40" + bytes(32)
    udp = b"\x80\x01\x12\xb7" + (len(payload) + 8).to_bytes(2, "big") + bytes(2)
    return header + srv6.to_bytes(address) + inner + udp + payload


def forwarded(nic, port, packets, mark):
    """Numbers of the packets that arrive at `port` when they are sent from the NIC, until `mark` does."""
    for one in packets:
        nic.send(one, ETH_P_IPV6)
    nic.send(mark, ETH_P_IPV6)
    got = []
    while END not in (frame := port.socket.recv(65536)):
        got.append(int.from_bytes(frame[14 + 88 + 12 :][:4], "big"))
    return got


def numbered(lab, uplink, count):
    return [packet(lab, uplink, bytes(12) + number.to_bytes(4, "big") + bytes(200)) for number in range(count)]


def mark(lab, uplink):
    return packet(lab, uplink, bytes(12) + END + bytes(40))


@pytest.mark.usefixtures("client")
def test_other_ports_forward_while_a_cable_goes_down_and_up(lab):
    with ports(lab, "h1-p1", "t1-p1-1-1", "t1-p1-2-1") as (nic, cut, kept):
        for port in (cut, kept):
            port.socket.bind((port.interface, ETH_P_IPV6))
        assert forwarded(nic, cut, numbered(lab, 1, 20), mark(lab, 1)) == list(range(20))
        for _ in range(5):
            lab.cables.down(CUT)
            assert forwarded(nic, kept, numbered(lab, 2, 40), mark(lab, 2)) == list(range(40))
            nic.send(mark(lab, 1), ETH_P_IPV6)  # towards the dead port: lost, and harmless
            assert forwarded(nic, kept, numbered(lab, 2, 40), mark(lab, 2)) == list(range(40))
            lab.cables.up(CUT)
            assert forwarded(nic, kept, numbered(lab, 2, 40), mark(lab, 2)) == list(range(40))
        assert lab.is_alive("t0-p1-1")


@pytest.mark.usefixtures("client")
def test_a_burst_of_frames_from_a_nic_is_not_lost_in_the_switchs_receive_ring(lab):
    with ports(lab, "h1-p1", "t1-p1-2-1") as (nic, kept):
        kept.socket.bind((kept.interface, ETH_P_IPV6))
        assert forwarded(nic, kept, numbered(lab, 2, 200), mark(lab, 2)) == list(range(200))


def test_the_control_channel_answers_while_every_port_is_down(lab, client):
    links = [port.link for port in lab.fabric.switch("t0-p1-1").ports]
    lab.cables.down(*links)
    assert client.count("MrcIngress.drops", 1) >= 0
    lab.cables.up(*links)


CABLE_FAULTS = {
    "link_down": {},
    "flap": {"period": 1, "duty": 0.9},
    "loss": {"rate": 0.5},
    "ev_loss": {"usids": [srv6.usid(srv6.UsidType.T0, 1, 2)]},
    "silent_drop": {},
    "corrupt": {"rate": 1, "offset": 30},
    "rate_limit": {"rate_pps": 1, "burst": 1},
    "delay": {"delay": "20ms"},
    "jitter": {"delay": "20ms", "jitter": "20ms", "ordered": False},
    "reorder": {"delay": "20ms", "share": 0.5},
    "lose_packets": {"packets": [1, 2, 3]},
}
OTHER_FAULTS = {
    "transceiver": {"links": [CUT, "t0-p1-2/t1-p1-1"]},
    "swap_cables": {"links": [CUT, "t0-p1-2/t1-p1-1"]},
    "nic_port_down": {"port": "h2-p1"},
    "host_loss": {"every": 1, "hosts": ["h2"]},
}


@pytest.mark.parametrize("kind", [*CABLE_FAULTS, *OTHER_FAULTS])
@pytest.mark.usefixtures("client")
def test_no_fault_of_a_cable_disturbs_another_port_of_its_switch(lab, kind):
    fields = {"link": CUT, **CABLE_FAULTS[kind]} if kind in CABLE_FAULTS else OTHER_FAULTS[kind]
    ground = Ground(lab)
    with ports(lab, "h1-p1", "t1-p1-2-1") as (nic, kept):
        kept.socket.bind((kept.interface, ETH_P_IPV6))
        with scoped(ground, fault(ground, "it", kind, **fields)):
            for one in numbered(lab, 1, 20):
                nic.send(one, ETH_P_IPV6)  # towards the fault
            assert forwarded(nic, kept, numbered(lab, 2, 40), mark(lab, 2)) == list(range(40))
        assert forwarded(nic, kept, numbered(lab, 2, 40), mark(lab, 2)) == list(range(40))
    assert lab.is_alive("t0-p1-1")


def test_a_frozen_switch_forwards_nothing_and_everything_again_when_thawed(lab, client):
    with ports(lab, "h1-p1", "t1-p1-2-1") as (nic, kept):
        kept.socket.bind((kept.interface, ETH_P_IPV6))
        lab.freeze("t0-p1-1")
        up, _ = lab.cables.forwarded(KEPT)
        for one in numbered(lab, 2, 20):
            nic.send(one, ETH_P_IPV6)
        lab.thaw("t0-p1-1")
        nic.send(mark(lab, 2), ETH_P_IPV6)
        while END not in kept.socket.recv(65536):
            pass
        assert lab.cables.forwarded(KEPT)[0] > up
        assert client.count("MrcIngress.drops", 1) >= 0


def test_a_restarted_switch_is_empty(lab):
    lab.restart("t0-p1-1")
    switch = lab.fabric.switch("t0-p1-1")
    with MrcSwitch(f"unix:{lab.run_dir}/{switch.name}.p4rt.sock", switch.device_id) as primary:
        primary.load()
        entry = primary.exact("MrcIngress.my_usid", [srv6.usid_route(switch.usid)], "MrcIngress.shift_usid")
        assert primary.read(entry) == []


@needs_bmv2
def test_what_bmv2_refuses_over_thrift_is_an_error():
    with Emulation(small_fabric(t0s=1), run_dir("-thrift"), "bmv2") as lab:
        with thrift.ThriftClient(lab.namespace("t0-p1-1"), 9090, "simple_switch") as switch:
            switch.call("set_egress_queue_rate", thrift.i32(1), thrift.i64(100))
            with pytest.raises(EmulationError, match="refused the Thrift call no_such_method"):
                switch.call("no_such_method")
        with pytest.raises(EmulationError, match="Thrift port 9090 does not respond"):
            thrift.ThriftClient(lab.namespace("h1"), 9090, "simple_switch")
