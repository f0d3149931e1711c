"""The Wireshark dissector against the scapy layers: every header, trims, holes, retransmissions, RoCEv2 beside."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mrclab.hosts import scapy_mrc as layers
from mrclab.hosts.mrc.packets.headers import MrcOpcode, Reason
from mrclab.topo.numbers import Dscp

LUA = Path(__file__).resolve().parents[2] / "docs" / "wireshark" / "mrc.lua"
HERE, THERE = "fdcb:bb00:0:1::1", "fdcb:bb00:0:2::1"
MAC = "02:00:00:00:00:01"
TRIM_BYTES = 140

pytestmark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed; setup/install.sh does it"
)


def frame(body: Packet, *, back: bool = False, dscp: int = Dscp.TRIMMABLE, ecn: int = 2, **bth: int) -> bytes:
    source, destination = (THERE, HERE) if back else (HERE, THERE)
    outer = IPv6(src=source, dst="fcbb:bb00:2101:1102:2102:3101::", nh=41)
    inner = IPv6(src=source, dst=destination, fl=0x1010, tc=dscp << 2 | ecn)
    return bytes(
        Ether(src=MAC, dst=MAC) / outer / inner / UDP(sport=0x8001, dport=4791, chksum=0) / layers.MrcBTH(**bth) / body
    )


def write(payload: int = 100, **bth: int) -> Packet:
    message = layers.METH(rqmsn=3, msn=4)
    stamp = layers.TSETH(tx_timestamp=77) if bth.get("ts") else None
    reth = layers.RETH(va=0x1_0000_1000, rkey=5, length=4096, immediate=9) / Raw(bytes(payload))
    return message / stamp / reth if stamp else message / reth


NAMES = (
    "path", "ev.plane", "ev.uplink", "ev.tag", "qp", "opcode", "dqp", "psn", "request_id", "rqmsn", "msn",
    "tx_timestamp", "va", "rkey", "length", "immediate", "payload", "icrc", "probe_id", "sack.m", "sack.cack",
    "sack.received", "sack.missing", "sack.ooo_count", "nack.reason", "nack.psn", "endpoint.port_mask",
    "endpoint.service_time", "aeth.msn", "note.retransmission", "note.ce", "note.trimmed", "note.hole", "note.nack",
    "note.short",
)  # fmt: skip
TEXTS = ("path", "sack.received", "sack.missing")


def read(frames: list[bytes], directory: Path) -> list[dict[str, int | str]]:
    """Return tshark's fields of each frame: those of NAMES that it has, numbers as such."""
    pcap = directory / "frames.pcap"
    records = (struct.pack("<IIII", n, 0, len(data), len(data)) + data for n, data in enumerate(frames))
    pcap.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))
    argv = ["tshark", "-X", f"lua_script:{LUA}", "-n", "-2", "-r", str(pcap), "-T", "fields"]
    argv += [word for name in NAMES for word in ("-e", f"mrc.{name}")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    if "aren't valid" in done.stderr:
        pytest.skip("this tshark loads no Lua scripts")
    assert done.returncode == 0, done.stderr
    rows = [zip(NAMES, line.split("\t"), strict=True) for line in done.stdout.splitlines()]
    return [{name: _value(name, text) for name, text in row if text} for row in rows]


def _value(name: str, text: str) -> int | str:
    first = text.split(",", maxsplit=1)[0]  # a SACK has two EVs: its own comes first
    return text if name in TEXTS or name.startswith("note.") else int(first, 0)


def notes(told: dict[str, int | str]) -> set[str]:
    return {name for name in told if name.startswith("note.")}


def test_a_write_tells_path_ev_and_every_header(tmp_path):
    (told,) = read([frame(write(ts=1), opcode=MrcOpcode.WRITE_ONLY_IMM, ts=1, ackreq=1, dqpn=0x100, psn=5)], tmp_path)
    icrc = told.pop("icrc")
    assert icrc
    assert told == {
        "path": "t0-p1-1 > t1-p1-2 > t0-p1-2 > downlink 1", "ev.plane": 1, "ev.uplink": 1, "ev.tag": 0x8001,
        "opcode": MrcOpcode.WRITE_ONLY_IMM, "dqp": 0x100, "psn": 5, "rqmsn": 3, "msn": 4, "tx_timestamp": 77,
        "va": 0x1_0000_1000, "rkey": 5, "length": 4096, "immediate": 9, "payload": 100,
    }  # fmt: skip


def test_retransmissions_marks_and_trims_are_noted(tmp_path):
    whole = frame(write(4096), opcode=MrcOpcode.WRITE_ONLY, rtx=1, dscp=Dscp.TRIMMABLE_RETX, ecn=3, psn=6)
    trimmed = frame(write(4096, ts=1), opcode=MrcOpcode.WRITE_ONLY, ts=1, dscp=Dscp.TRIMMED, psn=7)[:TRIM_BYTES]
    again, cut = read([whole, trimmed], tmp_path)
    assert notes(again) == {"note.retransmission", "note.ce"}
    assert notes(cut) == {"note.trimmed"}
    assert (cut["psn"], cut["length"]) == (7, 4096)
    assert not {"icrc", "payload"} & cut.keys()


def test_a_sack_tells_what_is_missing_and_pairs_the_directions(tmp_path):
    data = frame(write(), opcode=MrcOpcode.WRITE_ONLY, dqpn=0x100, psn=0xFFFFFF)
    sack = layers.SETH(cack_psn=0xFFFFFE, sack_offset=1, bitmap=0b110100, entropy=0x10108001, m=1, mpr=8, ooo_count=3)
    other = frame(write(), opcode=MrcOpcode.WRITE_ONLY, dqpn=0x300, psn=0x400000)
    told = read([data, frame(sack, back=True, opcode=MrcOpcode.SACK, dqpn=0x200), other], tmp_path)
    assert told[1]["sack.received"] == "1, 3-4"  # PSNs wrap at 24 bits: the bitmap begins at 0xFFFFFF
    assert told[1]["sack.missing"] == "16777215-0, 2"
    assert (told[1]["sack.m"], told[1]["sack.ooo_count"]) == (1, 3)
    assert notes(told[1]) == {"note.hole"}
    assert (told[0]["qp"], told[1]["qp"], told[2].get("qp")) == (1, 1, None)


def test_every_control_packet_is_read(tmp_path):
    nack = layers.NETH(reason=Reason.TRIMMED, nack_psn=7, entropy=0x10108001)
    told = read(
        [
            frame(nack, back=True, opcode=MrcOpcode.NACK, dqpn=0x200),
            frame(layers.PETH(probe_id=3), opcode=MrcOpcode.PROBE, dqpn=0x100),
            frame(layers.ERTH(op=1, port_status_mask=15), opcode=MrcOpcode.ENDPOINT_REQUEST, dqpn=2, psn=33),
            frame(layers.EETH(op=1, service_time=500), opcode=MrcOpcode.ENDPOINT_RESPONSE, dqpn=2, psn=33),
            frame(layers.AETH(msn=4), opcode=MrcOpcode.ACK, dqpn=0x100),
        ],
        tmp_path,
    )
    assert (told[0]["nack.reason"], told[0]["nack.psn"], notes(told[0])) == (Reason.TRIMMED, 7, {"note.nack"})
    assert told[1]["probe_id"] == 3
    assert (told[2]["endpoint.port_mask"], told[2]["request_id"]) == (15, 33)
    assert told[3]["endpoint.service_time"] == 500
    assert told[4]["aeth.msn"] == 4


def test_a_packet_that_ends_inside_a_header_is_said_and_rocev2_is_left_to_its_own(tmp_path):
    short = frame(layers.PETH(), opcode=MrcOpcode.SACK)[:-12]
    roce = bytes(
        Ether(src=MAC, dst=MAC)
        / IPv6(src=HERE, dst=THERE)
        / UDP(sport=50000, dport=4791, chksum=0)
        / Raw(bytes([0x06]) + bytes(40))
    )
    told = read([short, roce], tmp_path)
    assert notes(told[0]) == {"note.short"}
    assert told[1] == {}
