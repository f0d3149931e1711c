"""The RoCEv2 baseline on the wire: two agents in namespaces, the calls of MRC's agents, frames as they are captured."""

import contextlib
import os
import socket

import pytest
from agents import SIZES, AgentPair, agent_pair, random_file
from scapy.contrib.roce import AETH, BTH, opcode
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from mrclab.rpc.errors import RpcError

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]

ETH_P_ALL = 3


@pytest.fixture
def pair(tmp_path):
    with agent_pair(tmp_path, kind="roce", cc_profile="dcqcn") as pair:
        yield pair


@contextlib.contextmanager
def capture(pair: AgentPair, name: str, interface: str):
    """The frames that come in by an interface while the block runs; the list is complete after the block."""
    with pair.namespaces[name].entered():
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.bind((interface, ETH_P_ALL))
    tap.setblocking(False)
    frames: list[bytes] = []
    try:
        yield frames
        with contextlib.suppress(BlockingIOError):
            while True:
                frames.append(tap.recv(65535))
    finally:
        tap.close()


def test_files_of_every_size_arrive_bit_for_bit(pair: AgentPair, tmp_path):
    for size in SIZES:
        pair.check_delivery(tmp_path, size)


def test_a_qp_is_one_path_out_of_one_port(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 400_000)
    qp, _ = pair.connect(attributes={"port": 2, "udp_sport": 0xC123})
    with capture(pair, "h2", "h2-p2") as frames:
        pair.post(qp, source, tmp_path / "target")
        pair.completion()
    stats = pair.clients["h1"].call("stats")
    assert [port["tx_packets"] > 0 for port in stats["ports"]] == [False, True]
    (path,) = stats["paths"]
    assert (path["plane"], path["uplink"], path["sport"], path["state"]) == (2, 0, 0xC123, "GOOD")
    assert {(frame[UDP].sport, frame[UDP].dport) for frame in map(Ether, frames)} == {(0xC123, 4791)}


def test_frames_are_rocev2_as_an_independent_dissector_sees_it(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 40_001)
    qp, _ = pair.connect(attributes={"port": 1})
    with capture(pair, "h2", "h2-p1") as requests, capture(pair, "h1", "h1-p1") as answers:
        pair.post(qp, source, tmp_path / "target")
        pair.completion()
    writes, acks = ([Ether(frame) for frame in frames] for frames in (requests, answers))
    assert acks
    assert all(AETH in frame for frame in acks)
    names = [frame[BTH].opcode for frame in writes]
    first, middle, last = (opcode("RC", f"RDMA_WRITE_{word}")[0] for word in ("FIRST", "MIDDLE", "LAST"))
    assert names == [first, *[middle] * (len(names) - 2), last]
    psns = [frame[BTH].psn for frame in writes]
    assert psns == [(psns[0] + n) % (1 << 24) for n in range(len(psns))]
    assert acks[-1][BTH].psn == psns[-1]
    for frame in writes + acks:
        assert frame[BTH].icrc == int.from_bytes(frame[BTH].compute_icrc(b""), "big")
        assert frame[IPv6].nh == 17
        assert frame[IPv6].plen == frame[UDP].len == len(frame[UDP])


def test_what_only_mrc_has_is_refused_by_name(pair: AgentPair):
    h1 = pair.clients["h1"]
    with pytest.raises(RpcError, match="has no EVs") as refusal:
        h1.call("create_qp", peer="h2", profile="default")
    assert refusal.value.code == "EOPNOTSUPP"
    assert h1.call("query_device")["cc_profiles"] == ["dcqcn", "hpcc", "none"]
