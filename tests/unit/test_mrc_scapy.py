"""The scapy layers read what the transport sends, field by field, and build the same bytes again."""

import random

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets.psn import wrap
from mrclab.hosts.scapy_mrc import AETH, EETH, ERTH, METH, NETH, PETH, RETH, SETH, TSETH, MrcBTH, dissect

KINDS = {
    h.MrcOpcode.ACK: AETH,
    h.MrcOpcode.SACK: SETH,
    h.MrcOpcode.NACK: NETH,
    h.MrcOpcode.PROBE: PETH,
    h.MrcOpcode.ENDPOINT_REQUEST: ERTH,
    h.MrcOpcode.ENDPOINT_RESPONSE: EETH,
}


@pytest.fixture(scope="module", params=[True, False], ids=["with TSETH", "without TSETH"])
def traffic(request):
    """Every frame of a lossy transfer with immediates, a port failure and probes."""
    sim = Simulation(trimming=True, timestamps=request.param)
    sim.keep_sent = True
    rng = random.Random(3)

    def network(transit):
        if transit.is_write and rng.random() < 0.05:
            transit = Copy(transit)
        if rng.random() < 0.05:
            return []
        return [sim.delay(transit)]

    class Copy:
        def __new__(cls, transit):
            transit.data = bytearray(transit.data)
            transit.trim()
            return transit

    sim.network = network
    transfer = Transfer(sim, "h1", "h3", 60 * FULL_SIZE + 5)
    sim.hosts["h3"].verbs.post_recv(transfer.qb, 1, sim.now)
    transfer.write(0, 0)
    transfer.write(0, 3)
    transfer.write(0, 60 * FULL_SIZE + 5, imm=0xCAFEF00D)
    sim.at(0.03, lambda: sim.hosts["h1"].port_event(2, False, sim.now))
    sim.run(done=transfer.done)
    sim.run(sim.now + 3)
    return [bytes(transit.data) for transit in sim.sent if not is_trimmed(transit)]


def is_trimmed(transit):
    return (transit.data[h.INNER_AT] << 4 | transit.data[h.INNER_AT + 1] >> 4) >> 2 & 0x3F in {12, 16}


def test_every_frame_is_dissected_and_rebuilt_byte_for_byte(traffic):
    assert len(traffic) > 80
    for frame in traffic:
        packet = dissect(frame)
        rebuilt = packet.copy()
        for layer in (rebuilt, *layers(rebuilt)):
            layer.raw_packet_cache = None
        assert bytes(rebuilt) == frame


def layers(packet):
    while packet.payload:
        packet = packet.payload
        yield packet


def test_the_icrc_is_computed_as_the_transport_does(traffic):
    for frame in traffic:
        packet = dissect(frame)
        packet[MrcBTH].icrc = None
        for layer in (packet, *layers(packet)):
            layer.raw_packet_cache = None
        assert bytes(packet)[-4:] == frame[-4:]


def test_every_opcode_has_been_seen_with_its_header(traffic):
    seen = set()
    for frame in traffic:
        packet = dissect(frame)
        bth = packet[MrcBTH]
        seen.add(bth.opcode)
        if bth.opcode in h.WRITES:
            assert packet.haslayer(METH)
            assert packet.haslayer(RETH)
            assert packet.haslayer(TSETH) == bool(bth.ts)
        else:
            assert packet.haslayer(KINDS[bth.opcode])
    assert seen == {*KINDS, *(set(h.WRITES) - {h.MrcOpcode.WRITE_ONLY_IMM, h.MrcOpcode.WRITE_LAST})}


def test_fields_have_the_values_that_were_packed():
    sack = h.Sack(1, False, -3, 0xDEADBEEF, wrap(-1), 4, 2, 5, 6, 7, True, 8, 9)
    layer = SETH(sack.pack())
    assert (layer.m, layer.pr, layer.ack_psn_offset, layer.entropy, layer.cack_psn) == (1, 0, -3, 0xDEADBEEF, 0xFFFFFF)
    assert (layer.mpr, layer.sack_offset, layer.bitmap, layer.tx_timestamp) == (4, 2, 5, 6)
    assert (layer.ooo_count, layer.restore_cwnd, layer.rcv_cwnd_pen, layer.rcvd_bytes) == (7, 1, 8, 9)
    sack.probe_reply, sack.offset = True, 60000
    reply = SETH(sack.pack())
    assert (reply.pr, reply.probe_id) == (1, 60000)
    nack = NETH(h.Nack(h.Reason.NO_RESOURCE, 1, 2, 3).pack())
    assert (nack.reason, nack.entropy, nack.nack_psn, nack.tx_timestamp) == (0x0A, 1, 2, 3)
    assert EETH(h.EndpointResponse(1, 2, 3, 4, 5).pack()).service_time == 5
    assert PETH(h.Probe(77, 5).pack()).probe_id == 77
    assert ERTH(h.EndpointRequest(0, 9, 5).pack()).port_status_mask == 9
