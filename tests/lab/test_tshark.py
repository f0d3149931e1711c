"""Frames of real agents, read by tshark: an independent dissector finds nothing malformed and the fields we meant."""

import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from agents import NAMES, AgentPair, agent_pair
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from mrclab.hosts import scapy_mrc
from mrclab.hosts.mrc.packets import headers as h
from mrclab.topo import srv6

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed; setup/install.sh does it"),
]

_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
_ETH_P_ALL = 3
FIELDS = (
    "frame.protocols", "eth.src", "eth.dst", "ipv6.nxt", "ipv6.src", "ipv6.dst", "ipv6.hlim",
    "udp.srcport", "udp.dstport", "udp.length", "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp",
)  # fmt: skip


class Capture:
    """Everything that arrives at one interface, from when it is made."""

    def __init__(self, pair: AgentPair, host: str, interface: str) -> None:
        with pair.namespaces[host].entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
            self._socket.bind((interface, _ETH_P_ALL))
        self._socket.setblocking(False)

    def frames(self) -> list[bytes]:
        """All frames so far."""
        found = []
        while True:
            try:
                frame, (_, _, kind, *_) = self._socket.recvfrom(65536)
                if kind != socket.PACKET_OUTGOING:
                    found.append(frame)
            except BlockingIOError:
                self._socket.close()
                return found


LUA = Path(__file__).resolve().parents[2] / "docs" / "wireshark" / "mrc.lua"


def dissect(frames: Sequence[bytes], directory: Path, *options: str, fields: Sequence[str] = FIELDS) -> list[list[str]]:
    """One row of `fields` per frame that tshark shows; several values of a field are joined by commas."""
    pcap = directory / "frames.pcap"
    records = (struct.pack("<IIII", n, 0, len(frame), len(frame)) + frame for n, frame in enumerate(frames))
    pcap.write_bytes(_PCAP_HEADER + b"".join(records))
    argv = ["tshark", "-n", "-r", str(pcap), "-T", "fields", *options]
    done = subprocess.run(
        argv + [word for name in fields for word in ("-e", name)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_tshark_reads_every_frame_of_an_mrc_transfer(tmp_path: Path) -> None:
    with agent_pair(tmp_path) as pair:
        qps = pair.connect()
        captures = [Capture(pair, name, f"{name}-p{plane}") for name in NAMES for plane in (1, 2)]
        source = tmp_path / "source"
        source.write_bytes(os.urandom(500_001))
        pair.post(qps[0], source, tmp_path / "target")
        assert pair.completion()["status"] == "SUCCESS"
        pair.clients["h1"].call("probe_evs", peer="h2", evs=[srv6.ev(1, 0, srv6.ev_tag(0))], timeout=1.0)
        pair.wait_event("h1", lambda event: event["kind"] == "ev.probes")
        captured = [frame for capture in captures for frame in capture.frames()]
        qpns = {name: pair.clients[name].call("query_qp", qp=qp)["qpn"] for name, qp in zip(NAMES, qps, strict=True)}
    frames = [frame for frame in captured if frame[12:14] == b"\x86\xdd"]
    kinds = {frame[h.BTH_AT] for frame in frames}
    assert kinds >= {
        h.MrcOpcode.WRITE_FIRST,
        h.MrcOpcode.WRITE_MIDDLE,
        h.MrcOpcode.SACK,
        h.MrcOpcode.ENDPOINT_REQUEST,
        h.MrcOpcode.ENDPOINT_RESPONSE,
    }
    assert dissect(frames, tmp_path, "-Y", "_ws.malformed") == []
    rows = dissect(frames, tmp_path)
    assert len(rows) == len(frames) > 60
    for frame, row in zip(frames, rows, strict=True):
        told = dict(zip(FIELDS, row, strict=True))
        assert told["frame.protocols"].startswith("eth:ethertype:ipv6:ipv6:udp")
        assert told["eth.dst"] == frame[:6].hex(":")
        assert told["ipv6.nxt"] == "41,17"
        outer, inner = (srv6.text(srv6.from_bytes(frame[at + 24 : at + 40])) for at in (h.OUTER_AT, h.INNER_AT))
        assert told["ipv6.dst"] == f"{outer},{inner}"
        assert told["udp.srcport"] == str(int.from_bytes(frame[h.UDP_AT : h.UDP_AT + 2], "big"))
        assert told["udp.dstport"] == "4791"
        assert int(told["udp.length"]) == len(frame) - h.UDP_AT
        assert int(told["infiniband.bth.opcode"]) == frame[h.BTH_AT]
        assert int(told["infiniband.bth.psn"]) == int.from_bytes(frame[h.BTH_AT + 9 : h.BTH_AT + 12], "big")
        if frame[h.BTH_AT] in h.WRITES:
            assert int(told["infiniband.bth.destqp"], 16) == qpns["h2"]
    our_dissector_agrees_with_the_layers(frames, tmp_path, qpns)


def our_dissector_agrees_with_the_layers(frames: Sequence[bytes], directory: Path, qpns: dict[str, int]) -> None:
    """Every header of a real transfer, read by docs/wireshark/mrc.lua and by the scapy layers."""
    options = ("-X", f"lua_script:{LUA}", "-2")
    assert dissect(frames, directory, *options, "-Y", "mrc.note.short || _ws.lua.error") == []
    names = (
        "mrc.opcode",
        "mrc.dqp",
        "mrc.psn",
        "mrc.ev",
        "mrc.usids",
        "mrc.entropy",
        "mrc.sack.cack",
        "mrc.va",
        "mrc.qp",
    )
    pairs = set()
    for frame, row in zip(frames, dissect(frames, directory, *options, fields=names), strict=True):
        told = {name: int(text, 0) for name, text in zip(names, row, strict=True) if text and name != "mrc.usids"}
        layers = scapy_mrc.dissect(frame)
        bth = layers[scapy_mrc.MrcBTH]
        assert (told["mrc.opcode"], told["mrc.dqp"]) == (bth.opcode, bth.dqpn)
        sport, flow_label = layers[UDP].sport, layers[IPv6].payload[IPv6].fl
        assert told["mrc.ev"] == (flow_label & 0xFFFF) << 16 | sport
        assert row[names.index("mrc.usids")] == ":".join(frame[at : at + 2].hex() for at in range(42, 54, 2))
        if scapy_mrc.SETH in layers:
            seth = layers[scapy_mrc.SETH]
            assert (told["mrc.entropy"], told["mrc.sack.cack"]) == (seth.entropy, seth.cack_psn)
        if scapy_mrc.RETH in layers:
            assert told["mrc.va"] == layers[scapy_mrc.RETH].va
        if bth.dqpn != h.ENDPOINT_QPN:
            assert told["mrc.psn"] == bth.psn
            assert bth.dqpn in qpns.values()
            pairs.add(told["mrc.qp"])
    assert pairs == {1}  # both directions of the one QP


def test_tshark_reads_every_frame_of_a_roce_transfer(tmp_path: Path) -> None:
    with agent_pair(tmp_path, kind="roce", cc_profile="dcqcn") as pair:
        qp, _ = pair.connect()
        captures = [Capture(pair, name, f"{name}-p{plane}") for name in NAMES for plane in (1, 2)]
        source = tmp_path / "source"
        source.write_bytes(os.urandom(300_001))
        pair.post(qp, source, tmp_path / "target")
        assert pair.completion()["status"] == "SUCCESS"
        captured = [frame for capture in captures for frame in capture.frames()]
    frames = [frame for frame in captured if frame[12:14] == b"\x86\xdd"]
    assert dissect(frames, tmp_path, "-Y", "_ws.malformed") == []
    told = [dict(zip(FIELDS, row, strict=True)) for row in dissect(frames, tmp_path)]
    assert len(told) == len(frames) > 70
    assert all("ipv6:udp:infiniband" in row["frame.protocols"] for row in told)
    assert {row["infiniband.bth.opcode"] for row in told} == {"6", "7", "8", "17"}  # write first, middle, last; ack
    bth = 14 + 40 + 8
    psns = [int.from_bytes(frame[bth + 9 : bth + 12], "big") for frame in frames]
    assert [int(row["infiniband.bth.psn"]) for row in told] == psns
