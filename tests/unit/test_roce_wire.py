"""RoCEv2 frames as scapy's own dissector sees them, and what must hold in any network."""

import contextlib
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mrc_sim import FULL_SIZE, Transfer
from roce_sim import Simulation
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from mrclab.hosts.rdma.errors import DiscardError
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.rdma.states import QpState
from mrclab.hosts.roce import headers as h
from mrclab.hosts.roce.packets import PlainPath, parse

EXAMPLES = int(os.environ.get("MRCLAB_EXAMPLES", "40"))
GUARD = 64  # bytes around the target region that nothing may touch


@pytest.fixture(scope="module")
def traffic():
    """Every frame of a lossy, marked transfer with immediates, and the PSN of the first."""
    sim = Simulation(seed=5)
    sim.keep_sent = True
    rng = random.Random(3)

    def network(transit):
        if transit.is_write and rng.random() < 0.1:
            transit.data = bytearray(transit.data)
            transit.mark()
        return [] if rng.random() < 0.02 else [sim.delay(transit)]

    sim.network = network
    one = Transfer(sim, "h1", "h3", 100 * FULL_SIZE, first_psn=0xFFFFE0)
    for n in range(10):
        sim.hosts["h3"].verbs.post_recv(one.qb, n, sim.now)
        length = 10 * FULL_SIZE - n
        one.write(10 * n * FULL_SIZE, length, imm=0xA0 + n if n % 2 else None)
    one.write(0, 2, imm=0xB0)
    one.write(0, 7)
    sim.run(done=one.done)
    return sim, one


def test_every_opcode_and_nak_occurred(traffic):
    sim, _ = traffic
    assert {transit.op for transit in sim.sent} == {int(op) for op in h.RoceOpcode}
    syndromes = {transit.data[h.BODY_AT] for transit in sim.sent if transit.op == h.RoceOpcode.ACK}
    assert syndromes == {wire.Syndrome.ACK, wire.Syndrome.NAK_SEQUENCE}


def test_an_independent_dissector_agrees_on_every_field_and_checksum(traffic):
    sim, one = traffic
    to_peer = {"h1": sim.hosts["h1"].verbs.qps[one.qa], "h3": sim.hosts["h3"].verbs.qps[one.qb]}
    for transit in sim.sent:
        frame = Ether(bytes(transit.data))
        bth, qp = frame[BTH], to_peer[transit.source]
        assert frame[UDP].sport == qp.sport
        assert (frame[UDP].dport, frame[UDP].chksum, frame[IPv6].fl, frame[IPv6].hlim) == (4791, 0, 0, 64)
        assert frame[IPv6].plen == frame[UDP].len == len(transit.data) - h.UDP_AT
        assert (bth.opcode, bth.psn, bth.dqpn, bth.pkey) == (transit.op, transit.psn, qp.remote_qpn, 0xFFFF)
        assert bth.icrc == int.from_bytes(bth.compute_icrc(b""), "big")
        assert bth.becn == (transit.op == h.RoceOpcode.CNP)
        assert (AETH in frame) == (transit.op == h.RoceOpcode.ACK)
        assert frame[IPv6].tc >> 2 == (0 if transit.is_write else 46)
        assert (frame[IPv6].tc & 3 != 0) == transit.is_write


def test_the_icrc_is_no_part_of_an_ack_that_is_too_short():
    bth = wire.BTH.pack(h.RoceOpcode.ACK, wire.MIGRATED, wire.P_KEY, 0x123, 7)
    host = bytes(range(16))
    for body, malformed in ((bth + bytes(wire.AETH.size), False), (bth, True)):
        made = PlainPath(bytes(12), host, host, h.FIRST_SPORT).frame(h.TC_CONTROL, body)
        with pytest.raises(DiscardError, match="malformed") if malformed else contextlib.nullcontext():
            parse(made.header + made.trailer, 1, host, Verifier(host))


def test_writes_carry_reth_first_and_immediates_last(traffic):
    sim, one = traffic
    seen = set()
    for transit in sim.sent:
        if not transit.is_write or transit.psn in seen:
            continue
        seen.add(transit.psn)
        bth = Ether(bytes(transit.data))[BTH]
        body = bytes(bth.payload)
        index = (transit.psn - 0xFFFFE0) % (1 << 24)
        message, offset = divmod(index, 10) if index < 100 else (index - 90, 0)
        length = 10 * FULL_SIZE - message if message < 10 else {10: 2, 11: 7}[message]
        if offset == 0:
            va, rkey, dma_length = wire.RETH.unpack_from(body)
            base = 10 * message * FULL_SIZE if message < 10 else 0
            assert (va, rkey, dma_length) == (one.remote.va + base, one.remote.rkey, length)
            body = body[16:]
        if transit.op in h.WITH_IMM:
            imm = int.from_bytes(body[:4], "big")
            assert imm == (0xA0 + message if message < 10 else 0xB0)
            body = body[4:]
        size = min(FULL_SIZE, length - offset * FULL_SIZE)
        assert (len(body), bth.padcount) == (size + -size % 4, -size % 4)
    assert len(seen) == 102


# --- any network ------------------------------------------------------------------------------------

rates = st.sampled_from([0.0, 0.01, 0.05, 0.15])
sizes = st.sampled_from([0, 1, 3, FULL_SIZE - 1, FULL_SIZE, FULL_SIZE + 1, 5 * FULL_SIZE + 7, 40 * FULL_SIZE])


@given(
    seed=st.integers(0, 2**32),
    loss=rates,
    duplicate=rates,
    late=rates,
    corrupt=rates,
    messages=st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=10),
    first_psn=st.sampled_from([0, 0xFFFFFF, 0xFFFFE0, 77]),
    cc_profile=st.sampled_from(["dcqcn", "none"]),
)
@settings(max_examples=EXAMPLES)
def test_every_write_arrives_once_and_in_order_or_the_qp_says_why(
    seed, loss, duplicate, late, corrupt, messages, first_psn, cc_profile
):
    sim = Simulation(seed=seed, cc_profile=cc_profile)
    rng = random.Random(seed)

    def network(transit):
        if rng.random() < loss:
            return []
        delays = [sim.delay(transit) + (rng.random() * 0.4 if rng.random() < late else 0.0)]
        if rng.random() < duplicate:
            delays.append(delays[0] + rng.random() * 0.2)
        if transit.is_write and rng.random() < 0.1:
            transit.mark()
        if rng.random() < corrupt:
            transit.data[rng.randrange(len(transit.data))] ^= 1 << rng.randrange(8)
        return delays

    sim.network = network
    size = sum(length for length, _ in messages)
    one = Transfer(sim, "h1", "h3", size, guard=GUARD, first_psn=first_psn)
    offset, wanted = 0, []
    for number, (length, imm) in enumerate(messages):
        if imm:
            sim.hosts["h3"].verbs.post_recv(one.qb, 100 + number, sim.now)
            wanted.append((100 + number, number, length))
        one.write(offset, length, number if imm else None)
        offset += length
    sim.run(until=400, done=one.done)
    assert one.guards_intact()
    assert [done.wr_id for done in one.completions] == list(range(len(messages)))
    received = [(done.wr_id, done.imm, done.byte_len) for done in sim.hosts["h3"].verbs.poll_cq(most=64)]
    if sim.hosts["h1"].verbs.qps[one.qa].state is QpState.ERROR:
        assert one.stats().timeouts >= 8
        received = [entry for entry in received if entry in wanted]
        assert received == wanted[: len(received)]
        return
    assert one.target == one.source
    assert received == wanted
    responder = sim.hosts["h3"].verbs.qps[one.qb]
    assert responder.stats.placed_bytes == size
    assert responder.responder.msn == len(messages)
