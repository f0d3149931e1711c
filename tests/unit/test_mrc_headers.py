"""Wire format: golden bytes, round trips, ICRC against an independent implementation, and what is refused."""

import contextlib
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib import roce
from scapy.layers.inet6 import IPv6

from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.mrc.packets.packet import MrcParser
from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.packets import icrc, wire
from mrclab.hosts.rdma.packets.psn import unwrap, unwrap_bits, wrap
from mrclab.topo import srv6

MACS = bytes.fromhex("020a0101000102 0c01000101".replace(" ", ""))
SOURCE, DESTINATION = srv6.host_address(1, 1), srv6.host_address(2, 1)
EV = srv6.ev(1, 2, srv6.ev_tag(5))
ROUTE = srv6.nic_route(1, 1).to_bytes(6, "big")


def path() -> EvRoute:
    return EvRoute(EV, 1, MACS, Ends(srv6.template_cross(1, 2, 1), SOURCE, DESTINATION))


def write_body(payload: bytes, psn: int = 7, op: int = h.MrcOpcode.WRITE_ONLY) -> bytes:
    pad = -len(payload) & 3
    return h.WRITE_TS.pack(
        op, 0x40 | pad << 4, 0xFFFF, 0x123, h.FLAG_TS << 24 | psn, 1, 2, 3, h.TSETH_WORD, 64, 9, len(payload)
    )


def arriving(payload: bytes = b"abc", **kwargs: int) -> bytearray:
    """A frame as the NIC port gets it: the switches have shifted the uSID list."""
    made = path().frame(h.Dscp.TRIMMABLE << 2 | wire.ECN_ECT, write_body(payload, **kwargs), memoryview(payload))
    frame = bytearray(made.header + payload + made.trailer)
    frame[38:54] = srv6.to_bytes(srv6.nic_route(1, 1) << 80)
    return frame


def parsed(frame: bytearray):
    address = srv6.to_bytes(DESTINATION)
    parser = MrcParser(1, ROUTE, address, icrc.Verifier(address))
    with contextlib.suppress(DiscardError, struct.error):
        parser.parse(memoryview(frame))
    return parser.parse(memoryview(frame))  # as a packet of a path that is known already


# --- layouts ------------------------------------------------------------------------------------


def test_frame_starts_with_the_usid_list_of_its_path():
    made = path().frame(h.Dscp.TRIMMABLE << 2, write_body(b""))
    assert made.header[:12] == MACS
    assert made.header[12:14] == b"\x86\xdd"
    assert made.header[20] == 41
    assert srv6.text(srv6.from_bytes(made.header[38:54])) == "fcbb:bb00:2101:1102:2102:3101::"
    assert srv6.from_bytes(made.header[62:78]) == SOURCE
    assert srv6.from_bytes(made.header[78:94]) == DESTINATION
    assert struct.unpack_from(">HH", made.header, 94) == (0x8005, 4791)
    assert made.wire_len == 14 + 40 + 40 + 8 + 12 + 4 + 4 + 16 + 4


def test_inner_header_carries_the_ev_in_flow_label_and_source_port():
    frame = arriving()
    assert parsed(frame).entropy == EV
    assert int.from_bytes(frame[54:58], "big") & 0xFFFFF == EV >> 16


def test_write_packet_has_the_documented_layout():
    body = write_body(b"xy", psn=0xABCDEF, op=h.MrcOpcode.WRITE_LAST)
    assert body.hex(" ") == (
        "c8 60 ff ff 00 00 01 23 10 ab cd ef  00 01 00 02  00 03 80 01  00 00 00 00 00 00 00 40 00 00 00 09 00 00 00 02"
    ).replace("  ", " ")


def test_sack_has_the_documented_layout():
    sack = h.Sack(
        h.Mark.SKIP_ONCE, False, -2, 0x11223344, 0x00A0B0, 3, 1, 0x8000000000000001, 0x5566, 7, True, 64, 0x010203
    )
    raw = sack.pack()
    assert len(raw) == 36
    assert raw[0] == 0x10
    assert raw[1] >> 5 & 3 == 1
    assert raw[2:4] == b"\xff\xfe"
    assert raw[4:8] == b"\x11\x22\x33\x44"
    assert raw[13:16] == b"\x00\xa0\xb0"
    assert raw[17] == 3
    assert raw[18:20] == b"\x00\x01"
    assert raw[20:28] == b"\x80\0\0\0\0\0\0\x01"
    assert raw[28:30] == b"\x55\x66"
    assert raw[30:32] == b"\x00\x07"
    assert raw[32] == 0x80 | 64
    assert raw[33:36] == b"\x01\x02\x03"


def test_nack_probe_and_endpoint_headers_have_the_documented_offsets():
    nack = h.Nack(h.Reason.TRIMMED, 0x01020304, 0x0A0B0C, 0x1122).pack()
    assert (len(nack), nack[2], nack[4:8], nack[13:16], nack[18:20]) == (
        20,
        1,
        b"\1\2\3\4",
        b"\x0a\x0b\x0c",
        b"\x11\x22",
    )
    probe = h.Probe(0xBEEF, 0x1122).pack()
    assert (len(probe), probe[4:6], probe[12:14], probe[15]) == (16, b"\xbe\xef", b"\x11\x22", 1)
    request = h.EndpointRequest(h.EndpointOp.PORT_STATUS_UPDATE, 0b1011, 5).pack()
    assert (len(request), request[0], request[4:8]) == (16, 0, b"\0\0\0\x0b")
    response = h.EndpointResponse(h.EndpointOp.EV_PROBE, 0x01020304, 0xF, 5, 1000).pack()
    assert (len(response), response[0], response[28:30]) == (36, 1, b"\0\x05")


sacks = st.fixed_dictionaries(
    {
        "mark": st.integers(0, 2),
        "probe_reply": st.just(False),
        "offset": st.integers(-0x8000, 0x7FFF),
        "entropy": st.integers(0, 2**32 - 1),
        "cack": st.integers(0, 2**24 - 1),
        "mpr": st.integers(0, 255),
        "bitmap_offset": st.integers(-0x8000, 0x7FFF),
        "bitmap": st.integers(0, 2**64 - 1),
        "timestamp": st.integers(0, 0xFFFF),
        "ooo_count": st.integers(0, 0x7FFF),
        "restore": st.booleans(),
        "penalty": st.integers(0, 127),
        "rcvd_units": st.integers(0, 2**24 - 1),
    }
)


@given(sacks)
def test_a_sack_survives_the_wire(fields):
    sack = h.Sack.unpack(memoryview(h.Sack(**fields).pack()), 0)
    assert {name: getattr(sack, name) for name in fields} == fields


@given(st.integers(0, 0xFFFF))
def test_a_probe_reply_gives_all_sixteen_bits_of_its_id_back(probe_id):
    sack = h.Sack(0, True, probe_id, 0, 0, 0, 1, 0)
    assert h.Sack.unpack(memoryview(sack.pack()), 0).offset == probe_id


# --- ICRC ---------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=70).filter(lambda b: len(b) % 4 == 0), st.integers(0, 2**24 - 1))
def test_icrc_equals_that_of_an_independent_implementation(payload, psn):
    frame = arriving(payload, psn=psn)
    inner = bytes(frame[54:])
    packet = IPv6(inner)
    assert packet[roce.BTH].psn == psn
    rebuilt = IPv6(bytes(packet))
    bth = rebuilt[roce.BTH]
    bth.icrc = None
    assert bytes(rebuilt)[-4:] == inner[-4:]


def test_icrc_does_not_depend_on_what_routers_may_change():
    frame = arriving()
    frame[21] -= 3  # outer hop limit
    frame[61] -= 1  # inner hop limit
    frame[55] |= 0x30  # inner ECN
    frame[15] |= 0x30
    frame[100:102] = b"\x12\x34"  # UDP checksum
    frame[106] = 0xC0  # BTH reserved byte
    assert parsed(frame).ce


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_any_flipped_bit_that_is_covered_is_noticed(position, bit):
    frame = arriving(b"some payload bytes")
    position = 54 + position % (len(frame) - 54)
    free = {54, 55, 56, 57, 61, 100, 101, 106}  # class, flow label, hop limit, UDP checksum, BTH reserved byte
    frame[position] ^= 1 << bit
    if position in free:
        return
    with pytest.raises(DiscardError):
        parsed(frame)


# --- refusals -----------------------------------------------------------------------------------


def reason(frame: bytearray) -> str:
    with pytest.raises(DiscardError) as caught:
        parsed(frame)
    return str(caught.value)


def test_each_kind_of_stray_frame_is_counted_by_its_name():
    frame = arriving()
    strays = ((12, 8, "foreign"), (20, 17, "foreign"), (60, 6, "foreign"), (97, 1, "foreign"), (38, 0, "misdelivered"))
    for at, value, name in (*strays, (93, 9, "misdelivered"), (99, 9, "malformed"), (105, 1, "malformed")):
        bad = bytearray(frame)
        bad[at] = value
        assert reason(bad) == name


@pytest.mark.parametrize("length", [0, 13, 53, 93, 101, 113, 114, 130, 140])
def test_a_frame_that_ends_early_is_malformed(length):
    assert reason(arriving()[:length]) == "malformed"


def test_what_a_router_says_to_its_neighbours_is_foreign_however_short():
    report = bytes.fromhex("333300000016020b0100020186dd6000000000240001") + bytes(32) + bytes(36)  # MLDv2
    assert len(report) == 90
    assert reason(bytearray(report)) == "foreign"


def test_a_trimmed_packet_gives_its_header_but_no_payload():
    frame = arriving(bytes(1000))
    for at in (14, 54):
        frame[at], frame[at + 1] = 0x60 | h.Dscp.TRIMMED >> 2, (h.Dscp.TRIMMED & 3) << 6 | frame[at + 1] & 0x3F
    packet = parsed(frame[:128])
    assert packet.trimmed
    assert (packet.psn, packet.timestamp, packet.size, packet.dscp) == (7, 3, 0, h.Dscp.TRIMMED)


def control(op: int, content: bytes, traffic_class: int = h.TC_CONTROL) -> bytearray:
    """A frame of a control packet, as `arriving`."""
    made = path().frame(traffic_class, wire.BTH.pack(op, 0x40, 0xFFFF, 0x123, 0) + content)
    frame = bytearray(made.header + made.trailer)
    frame[38:54] = srv6.to_bytes(srv6.nic_route(1, 1) << 80)
    return frame


def test_trimmed_control_packets_are_not_believed():
    assert reason(control(h.MrcOpcode.SACK, bytes(36), h.Dscp.TRIMMED << 2)) == "malformed"


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (h.MrcOpcode.ACK, h.Ack), (h.MrcOpcode.SACK, h.Sack), (h.MrcOpcode.NACK, h.Nack), (h.MrcOpcode.PROBE, h.Probe),
        (h.MrcOpcode.ENDPOINT_REQUEST, h.EndpointRequest), (h.MrcOpcode.ENDPOINT_RESPONSE, h.EndpointResponse),
    ],
)  # fmt: skip
def test_the_icrc_is_no_part_of_a_header_that_is_too_short(op, kind):
    assert isinstance(parsed(control(op, bytes(kind.length))).content, kind)
    with pytest.raises(struct.error):
        parsed(control(op, bytes(kind.length - 4)))


@given(st.randoms(use_true_random=False))
def test_random_damage_never_raises_anything_but_a_discard(rng: random.Random):
    frame = arriving(rng.randbytes(rng.randrange(200)))
    for _ in range(rng.randrange(1, 8)):
        frame[rng.randrange(len(frame))] = rng.randrange(256)
    del frame[rng.randrange(len(frame)) :]
    with contextlib.suppress(DiscardError):
        parsed(frame)


# --- serial numbers -----------------------------------------------------------------------------


@given(st.integers(0, 2**30), st.integers(-(2**23) + 1, 2**23 - 1))
def test_unwrapping_finds_every_seq_within_half_the_space(reference, distance):
    seq = reference + distance
    assert unwrap(wrap(seq), reference) == seq


def test_unwrapping_works_across_the_wrap():
    assert unwrap(2, 0xFFFFFE) == 0x1000002
    assert unwrap(0xFFFFFF, 0x1000000) == 0xFFFFFF
    assert unwrap_bits(1, 0xFFFF, 16) == 0x10001
